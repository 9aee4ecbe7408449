"""docs/llms.txt, the list of the documentation's pages for language models (llmstxt.org), from the
navigation of the site and the first sentence of each page."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SENTENCE_MIN, SENTENCE_MAX = 40, 300
_NO_PROSE = re.compile(r"[#<!|>+]|[-*] |\d+\. ").match
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


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
    text = (DOCS / name).read_text("utf-8")
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    title = heading[1] if heading else name
    return f"- [{title}]({name.removesuffix('.md')}.html): {_summarize_page(text)}"


def _summarize_page(text: str) -> str:
    """Returns the first sentence of a page's first paragraph, or the page's headings if these say
    more."""
    sentence = _find_sentence(text)
    headings = "; ".join(re.findall(r"^## (.+)$", text, re.MULTILINE))[:SENTENCE_MAX]
    says_more = len(headings) > SENTENCE_MIN > len(sentence) or not sentence
    return headings if says_more else sentence


def _find_sentence(text: str) -> str:
    """Returns the first sentence of prose before the first section; empty without one."""
    prose = _CODE.sub("", re.sub(r"^# .+$", "", text, count=1, flags=re.MULTILINE))
    for paragraph in re.split(r"\n\s*\n", prose.partition("\n## ")[0]):
        if paragraph.strip() and not _NO_PROSE(paragraph.strip()):
            line = " ".join(_LINK.sub(r"\1", paragraph).replace("*", "").split())
            return re.split(r"(?<=[.?!]) ", line)[0].removesuffix(":")[:SENTENCE_MAX]
    return ""
