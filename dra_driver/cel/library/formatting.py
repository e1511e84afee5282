"""What string.format() makes of its verbs: %s %d %f %e %b %o %x %X and %%."""

import re
from typing import Any

from dra_driver.cel.budget import Frame, charge
from dra_driver.cel.errors import EvaluationError
from dra_driver.cel.library.standard import text_of_double
from dra_driver.cel.library.time import text_of_duration, text_of_timestamp
from dra_driver.cel.values import Duration, Timestamp, TypeValue, UInt, type_name

_VERB = re.compile(r"%(?:\.(\d+))?(.?)", re.DOTALL)
_MAX_PRECISION = 1000


def format_string(frame: Frame, template: str, args: list[Any]) -> str:
    """The template with each verb replaced by its argument, in order."""
    remaining = iter(args)

    def replace(match: re.Match[str]) -> str:
        precision, verb = match.groups()
        if verb == "%":
            return "%"
        if verb not in "sdfebxXo" or not verb:
            raise EvaluationError(f'unrecognized formatting clause "{verb}"', name="format")
        try:
            argument = next(remaining)
        except StopIteration:
            raise EvaluationError("index out of range in format string", name="format") from None
        text = _text(frame, verb, None if precision is None else int(precision[:5]), argument)
        charge(frame, 1 + len(text) // 10)
        return text

    return _VERB.sub(replace, template)


def _text(frame: Frame, verb: str, precision: int | None, value: Any) -> str:
    if precision is not None and precision > _MAX_PRECISION:
        raise EvaluationError("precision of a formatting clause is too large", name="format")
    if verb == "s":
        return _string(frame, value, quoted=False)
    if verb in "fe":
        return _float(verb, 6 if precision is None else precision, value)
    if verb == "d":
        if type(value) in {int, UInt}:
            return str(int(value))
        if type(value) is float:
            return text_of_double(value)
    elif verb in "xX" and type(value) in {str, bytes}:
        digits = (value.encode() if isinstance(value, str) else value).hex()
        return digits.upper() if verb == "X" else digits
    elif type(value) in {int, UInt} or (verb == "b" and type(value) is bool):
        return format(int(value), verb)
    raise EvaluationError(f"no formatting function for %{verb} of type {type_name(value)}", name="format")


def _float(verb: str, precision: int, value: Any) -> str:
    if type(value) not in {float, int, UInt}:
        if value not in ("NaN", "Infinity", "-Infinity"):
            raise EvaluationError(
                f"no formatting function for %{verb} of type {type_name(value)}", name="format"
            )
        value = float(value)
    value = float(value)
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124 - NaN
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return format(value, f".{precision}{verb}")


def _string(frame: Frame, value: Any, *, quoted: bool) -> str:
    charge(frame, 1)
    match value:
        case str():
            return f'"{value}"' if quoted else value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return text_of_double(value)
        case int():
            return str(int(value))
        case bytes():
            return value.decode(errors="replace")
        case Duration():
            return text_of_duration(value)
        case Timestamp():
            return text_of_timestamp(value)
        case TypeValue():
            return value.name
        case list():
            return f"[{', '.join(_string(frame, item, quoted=True) for item in value)}]"
        case dict():
            pairs = sorted(
                (_string(frame, key, quoted=True), _string(frame, item, quoted=True))
                for key, item in value.items()
            )
            return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        case _:
            raise EvaluationError(f"no formatting function for %s of type {type_name(value)}", name="format")
