"""The syntaxes of names in resource.k8s.io, with the API server's texts for what breaks them.

Each function takes a value and returns the reasons against it, none where it is fine; `check` turns reasons
into problems of a field. Lengths are bytes of UTF-8, as Go counts them. Patterns are matched to the very end
of the value: Python's `$` would let a trailing newline pass.
"""

import re
from collections.abc import Callable, Iterator

from dra_driver.resource.limits import MAX_DRIVER_NAME, MAX_IDENTIFIER, MAX_LABEL, MAX_POOL_NAME
from dra_driver.resource.problems import Problem, invalid, required, too_long

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_REASON = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_ALPHANUMERIC_ENDS = "and must start and end with an alphanumeric character"
_CHARACTERS = "alphanumeric characters, '-', '_' or '.'"


def _explain(rule: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)  # the double blanks are the server's
    return f"{rule} (e.g. {listed}regex used for validation is '{pattern}')"


_LABEL_RULE = _explain(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALPHANUMERIC_ENDS}",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_RULE = _explain(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    + _ALPHANUMERIC_ENDS,
    _SUBDOMAIN,
    "example.com",
)
_KEY_RULE = _explain(
    f"must consist of {_CHARACTERS}, {_ALPHANUMERIC_ENDS}", _KEY, "MyName", "my.name", "123-abc"
)
_VALUE_RULE = _explain(
    f"a valid label must be an empty string or consist of {_CHARACTERS}, {_ALPHANUMERIC_ENDS}",
    f"({_KEY})?",
    "MyValue",
    "my_value",
    "12345",
)
_IDENTIFIER_RULE = _explain(
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'",
    _IDENTIFIER,
    "my_name",
    "MY_NAME",
    "MyName",
)
_REASON_RULE = _explain(
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'",
    _REASON,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)


def size(text: str) -> int:
    """Bytes of `text` in UTF-8; lone surrogates, which JSON can carry, count as the three bytes Go makes of them."""
    return len(text.encode("utf-8", "surrogatepass"))


def _too_long(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} characters"] if size(text) > limit else []


def label(value: str) -> list[str]:
    """An RFC 1123 label: devices, requests, counters, counter sets."""
    reasons = _too_long(value, MAX_LABEL)
    if not re.fullmatch(_LABEL, value):
        reasons.append("must not contain dots" if re.fullmatch(_SUBDOMAIN, value) else _LABEL_RULE)
    return reasons


def subdomain(value: str) -> list[str]:
    """An RFC 1123 subdomain: object names, device classes, nodes."""
    return _too_long(value, MAX_POOL_NAME) + ([] if re.fullmatch(_SUBDOMAIN, value) else [_SUBDOMAIN_RULE])


def label_key(value: str) -> list[str]:
    """The key of a label, taint or toleration: a name, with an optional domain and a slash before it."""
    if value.count("/") > 1:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_KEY_RULE} {optional}"]
    prefix, slash, name = value.rpartition("/")
    reasons = []
    if slash:
        texts = subdomain(prefix) if prefix else ["must be non-empty"]
        reasons += [f"prefix part {text}" for text in texts]
    if not name:
        reasons.append("name part must be non-empty")
    reasons += [f"name part {text}" for text in _too_long(name, MAX_LABEL)]
    if not re.fullmatch(_KEY, name):
        reasons.append(f"name part {_KEY_RULE}")
    return reasons


def label_value(value: str) -> list[str]:
    return _too_long(value, MAX_LABEL) + ([] if re.fullmatch(f"({_KEY})?", value) else [_VALUE_RULE])


def condition_reason(value: str) -> list[str]:
    return [] if re.fullmatch(_REASON, value) else [_REASON_RULE]


def extended_resource(value: str) -> list[str]:
    """The name of an extended resource: a domain that is not Kubernetes' own, a slash, a name."""
    native = "/" not in value or "kubernetes.io/" in value
    if native or value.startswith("requests.") or label_key(f"requests.{value}"):
        return ["must be a valid extended resource name"]
    return []


def check(path: str, value: str, syntax: Callable[[str], list[str]]) -> Iterator[Problem]:
    """One problem for each reason that `syntax` has against the `value` at `path`."""
    for reason in syntax(value):
        yield invalid(path, value, reason)


def driver_name(path: str, value: str) -> Iterator[Problem]:
    """A driver's name, or the domain of an attribute. Upper case passes, as it does for CSI drivers."""
    if not value:
        yield required(path)
        return
    if size(value) > MAX_DRIVER_NAME:
        yield too_long(path, MAX_DRIVER_NAME)
    for reason in subdomain(value.lower()):
        yield invalid(path, value, reason)


def pool_name(path: str, value: str) -> Iterator[Problem]:
    """A pool's name: subdomains with slashes between them."""
    if not value:
        yield required(path)
        return
    if size(value) > MAX_POOL_NAME:
        yield too_long(path, MAX_POOL_NAME)
    for part in value.split("/"):
        yield from check(path, part, subdomain)


def qualified_name(path: str, value: str) -> Iterator[Problem]:
    """The key of an attribute or capacity. More than one slash passes: the server's check has that gap."""
    domain, slash, identifier = value.partition("/")
    if not slash:
        yield from _identifier(path, value)
        return
    if "/" in identifier:
        return
    if domain:
        yield from driver_name(path, domain)
    else:
        yield invalid(path, "", "the domain must not be empty")
    if identifier:
        yield from _identifier(path, identifier)
    else:
        yield invalid(path, "", "the name must not be empty")


def fully_qualified_name(path: str, value: str) -> Iterator[Problem]:
    """A qualified name that has its domain, as constraints need it."""
    yield from qualified_name(path, value)
    if "/" not in value:
        yield invalid(path, value, "a fully qualified name must be a domain and a name separated by a slash")


def _identifier(path: str, value: str) -> Iterator[Problem]:
    if size(value) > MAX_IDENTIFIER:
        yield too_long(path, MAX_IDENTIFIER)
    if not re.fullmatch(_IDENTIFIER, value):
        yield invalid(path, value, _IDENTIFIER_RULE)


def uid(path: str, value: str) -> Iterator[Problem]:
    """A share id: a UUID in lower case."""
    if not _UUID.fullmatch(value):
        yield invalid(
            path,
            value,
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` "
            "with lowercase hexadecimal characters",
        )
