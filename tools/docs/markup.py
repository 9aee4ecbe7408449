"""Markdown for generated pages: tables, and text that is not HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(
        "|" + "|".join(cell.replace("|", "\\|") for cell in line) + "|\n" for line in lines
    )


def plain(text: str) -> str:
    """Returns the text as one line, in which only code is HTML."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)
