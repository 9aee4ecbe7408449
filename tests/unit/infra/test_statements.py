"""SQL and Lua in files of their own: each is found, and says what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

import scraper
from scraper.infra.statements import lua, sql

PACKAGE = Path(scraper.__file__).parent
FILES = sorted(
    str(path.relative_to(PACKAGE))
    for suffix in ("sql", "lua")
    for path in PACKAGE.rglob(f"*.{suffix}")
)


@pytest.mark.parametrize("name", FILES)
def test_a_statement_loads_and_opens_with_a_header(name: str) -> None:
    """A colon in a comment of SQL would read as a parameter."""
    text = sql(name) if name.endswith(".sql") else lua(name)
    assert text.strip()
    assert (PACKAGE / name).read_text().startswith("-- ")
    comments = [line for line in text.splitlines() if line.lstrip().startswith("--")]
    assert bool(comments) == name.endswith(".lua")


def test_scripts_share_functions() -> None:
    scripts = [name for name in FILES if name.endswith(".lua")]
    assert lua(*scripts[:2]) == "\n".join(map(lua, scripts[:2]))
