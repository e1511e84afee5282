"""The pages that people read, and their parts."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """The page without its fenced blocks."""
        return _BLOCK.sub("", self.text)

    @property
    def codes(self) -> list[str]:
        """What is written in inline code."""
        return _INLINE.findall(self.prose)

    def blocks(self, *languages: str) -> list[str]:
        return [body for language, body in _BLOCK.findall(self.text) if language in languages]

    def documents(self) -> list[Any]:
        """All documents of all YAML blocks."""
        return [document for block in self.blocks("yaml") for document in yaml.safe_load_all(block)]

    @property
    def anchors(self) -> set[str]:
        """Headings as GitHub makes links of them."""
        titles = re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}

    def table_column(self, heading: str) -> list[str]:
        """Inline code of the first column of all tables in the section `heading`."""
        section = self.text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
        rows = [line for line in section.splitlines() if line.startswith("| `")]
        return [code for row in rows for code in _INLINE.findall(row.split(" | ")[0])]


@pytest.fixture(scope="session")
def pages() -> list[Page]:
    return [Page(path) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]


@pytest.fixture(scope="session")
def page(pages: list[Page]) -> dict[str, Page]:
    """Pages by their path in the repository."""
    return {page.name: page for page in pages}
