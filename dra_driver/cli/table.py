"""Tables as plain text: aligned columns, the same on a terminal, in a pipe and in a document."""

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under a header, each column as wide as its widest cell; '-' where a cell is empty."""
    cells = [[cell or "-" for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in (header, *cells)) for column in range(len(header))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in (header, *cells)
    )
    return "\n".join(line.rstrip() for line in lines)
