"""An environment of variables and libraries, and the programs that it compiles."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dra_driver.cel import ast
from dra_driver.cel.budget import DEFAULT_BUDGET
from dra_driver.cel.checker import Checker
from dra_driver.cel.compiler import Compiler, Step
from dra_driver.cel.constants import failures
from dra_driver.cel.declarations import Library, Overload
from dra_driver.cel.errors import CompileError, Issue, LimitError
from dra_driver.cel.parser import parse
from dra_driver.cel.types import Type
from dra_driver.cel.validators import validate

MAX_LENGTH = 10 * 1024  # resource.k8s.io's limit of a selector


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression; immutable, so threads may share it.

    `type` is the static type of the result and `tree` the checked syntax, for those that explain.
    """

    source: str
    type: Type
    tree: ast.Node
    _step: Step
    _names: tuple[str, ...]
    _size: int

    def evaluate(self, values: Mapping[str, Any], *, budget: int = DEFAULT_BUDGET) -> Any:
        """The value for these variables; EvaluationError where there is none."""
        return self.evaluate_ordered([values[name] for name in self._names], budget=budget)

    def evaluate_ordered(self, values: Sequence[Any], *, budget: int = DEFAULT_BUDGET) -> Any:
        """As `evaluate`, with the variables in the environment's order: no dict for those in a hurry."""
        frame = [budget, *values]
        frame += [None] * (self._size - len(frame))
        try:
            return self._step(frame)
        except RecursionError:
            raise LimitError("the expression nests too deeply to be evaluated") from None


class Environment:
    """Variables with their types, object types with their fields, and libraries of functions."""

    def __init__(
        self,
        *,
        variables: Mapping[str, Type],
        fields: Mapping[str, Mapping[str, Type]] | None = None,
        libraries: Iterable[Library],
        max_length: int = MAX_LENGTH,
    ) -> None:
        self._variables = dict(variables)
        self._fields = dict(fields or {})
        self._max_length = max_length
        functions: dict[str, tuple[Overload, ...]] = {}
        self._types: dict[str, Type] = {}
        for library in libraries:
            for overload in library.overloads:
                functions[overload.function] = (*functions.get(overload.function, ()), overload)
            self._types.update({known.name: known for known in library.types})
        self._functions: Mapping[str, tuple[Overload, ...]] = functions

    @property
    def functions(self) -> Mapping[str, tuple[Overload, ...]]:
        """Every function by name, for completion and did-you-mean."""
        return self._functions

    def compile(self, source: str) -> Program:
        """The program of an expression; CompileError says what is wrong and where."""
        if len(source.encode()) > self._max_length:
            raise CompileError([Issue(1, 1, f"the expression is longer than {self._max_length} bytes")], "")
        try:
            return self._compile(source)
        except RecursionError:
            raise CompileError([Issue(1, 1, "the expression nests too deeply")], source) from None

    def _compile(self, source: str) -> Program:
        tree = parse(source)
        checker = Checker(self._variables, self._fields, self._functions, self._types)
        checker.check(tree)
        if not checker.issues:
            checker.issues += validate(tree)
        if checker.issues:
            raise CompileError(checker.issues, source)
        if failed := failures(tree):
            raise CompileError(failed, source, placed=False)
        names = tuple(self._variables)
        compiler = Compiler(names, self._types)
        step = compiler.compile(tree)
        return Program(sys.intern(source), tree.type, tree, step, names, compiler.size)
