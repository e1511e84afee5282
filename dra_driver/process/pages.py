"""Tables of reference pages, made from a table of flags and from the metric families of a live registry."""

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import Metric

from dra_driver.process.flags import Flag


def flag_table(flags: Sequence[Flag]) -> Iterator[str]:
    yield "| flag | variable | default | meaning | also accepted |"
    yield "|---|---|---|---|---|"
    for flag in flags:
        variable = flag.name.replace("-", "_").upper()
        default = f"`{flag.default}`" if flag.default is not None else ""
        also = [*(f"--{alias}" for alias in flag.aliases), *flag.variables]
        yield f"| `--{flag.name}` | `{variable}` | {default} | {flag.help} | {_codes(also)} |"


def metric_table(families: Iterable[Metric]) -> Iterator[str]:
    """`families` are what a scrape returns once everything that can be counted was."""
    yield "| name | type | labels | meaning |"
    yield "|---|---|---|---|"
    for family in sorted(families, key=lambda family: family.name):
        yield _metric_row(family)


def _metric_row(family: Metric) -> str:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels: dict[str, list[str]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            if label != "le" and value not in labels.setdefault(label, []):
                labels[label].append(value)
    shown = "; ".join(f"`{label}`: {_codes(sorted(values))}" for label, values in labels.items())
    return f"| `{name}` | {family.type} | {shown} | {family.documentation} |"


def made(source: str) -> str:
    """The first line of a page; `source` is the path of the module it is made from."""
    return f"<!-- made from {source} by `make generate`; do not edit -->"


def _codes(texts: Iterable[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)
