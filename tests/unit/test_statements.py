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
    text = (sql if name.endswith(".sql") else lua)(name)
    assert text.strip()
    assert (PACKAGE / name).read_text().startswith("-- ")


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".sql")])
def test_a_statement_reaches_the_server_without_its_comments(name: str) -> None:
    assert not [line for line in sql(name).splitlines() if line.lstrip().startswith("--")]


def test_scripts_share_functions() -> None:
    scripts = [name for name in FILES if name.endswith(".lua")]
    assert lua(*scripts[:2]) == "\n".join(map(lua, scripts[:2]))
