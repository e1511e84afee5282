"""Tables as plain text: aligned columns for people, or a line for each row for programs that read lines."""

from collections.abc import Callable, Mapping, Sequence

Layout = Callable[[Sequence[str], Sequence[Sequence[str]]], str]
_AS_ABOVE = " "


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under a header, each column as wide as its widest cell; '-' where a cell is empty."""
    cells = [[cell or "-" for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in (header, *cells)) for column in range(len(header))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in (header, *cells)
    )
    return "\n".join(line.rstrip() for line in lines)


def tabbed(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under a header, with a tab between cells; blanks at the start of a row are what stands above them."""
    lines, above = [list(header)], ["-"] * len(header)
    for row in rows:
        first = next((column for column, cell in enumerate(row) if cell != _AS_ABOVE), len(row))
        above = [*above[:first], *(cell.strip() or "-" for cell in row[first:])]
        lines.append(above)
    return "\n".join("\t".join(line) for line in lines)


LAYOUTS: Mapping[str, Layout] = {"table": table, "lines": tabbed}
