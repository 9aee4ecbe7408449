"""docs/llms.txt, the list of the documentation's pages for language models (llmstxt.org), from the
navigation of the site and `purposes.toml`, which says what each page is for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PURPOSES = Path(__file__).with_name("purposes.toml")


def llms_text() -> str:
    """Returns the file's text: title, summary, and a section for each group of pages."""
    project = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    parts = [f"# {project['site_name']}\n\n> {project['site_description']}\n"]
    for entry in project["nav"]:
        for title, pages in entry.items():
            links = "".join(f"{_describe_page(page)}\n" for page in _list_pages(pages))
            parts.append(f"## {title}\n\n{links}")
    return "\n".join(parts)


def _list_pages(entry: Any) -> Iterator[str]:
    """Yields the pages of an entry of the navigation, at any depth."""
    if isinstance(entry, str):
        yield entry
        return
    for part in entry.values() if isinstance(entry, dict) else entry:
        yield from _list_pages(part)


def _describe_page(name: str) -> str:
    heading = re.search(r"^# (.+)$", (DOCS / name).read_text("utf-8"), re.MULTILINE)
    title = heading[1] if heading else name
    return f"- [{title}]({name.removesuffix('.md')}.html): {read_purposes()[name]}"


def read_purposes() -> dict[str, str]:
    """Returns what each page is for, by its path below docs/."""
    return tomllib.loads(PURPOSES.read_text("utf-8"))
