"""A CEL core: from text to a program that evaluates, for any environment of variables.

    text --grammar/parser--> ast --checker--> typed ast --compiler--> closures --Program.evaluate--> value

cel-python gives the grammar; the rest is ours, because its evaluator knows too little of the Kubernetes dialect
and is some sixty times slower than closures. The core knows nothing of DRA: an `Environment` names variables with
their types, and `selectors/` makes the one with `device`.

A `Program` is immutable and may be evaluated by many threads at once; each evaluation has its own frame and its
own budget. Failures are `CompileError` (before any value is seen; with line, column and a caret) and
`EvaluationError` (for these values), nothing else.
"""

from dra_driver.cel.environment import Environment, Program
from dra_driver.cel.errors import CelError, CompileError, EvaluationError, LimitError

__all__ = ["CelError", "CompileError", "Environment", "EvaluationError", "LimitError", "Program"]
