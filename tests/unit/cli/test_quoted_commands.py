"""Commands in messages: what a shop or a user chose stays one word of them when they are pasted."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

import scraper
from scraper.errors import quote_command

# Numbers, and names that the program itself gives.
PLAIN = re.compile(r"(?:\w+\.)?(?:id|crawl_id|running|running\[0\]|beat)")
COMMAND = re.compile(r"(?:\bscraper [a-z]|celery -A|`kubectl|`psql)[^`(;]*$")
PACKAGE = Path(scraper.__file__).parent
MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent.name != "feed"]
WORDS = [
    "http://shop.example/$(touch$IFS/tmp/x);reboot",
    "`id`",
    "a'b",
    'a"b',
    "a b",
    "*",
    "~",
    "$HOME",
    "a\\",
    "",
    "!!",
    "a&b|c>d",
]


def test_a_shell_reads_the_words_as_they_were() -> None:
    done = subprocess.run(
        ["sh", "-c", quote_command("printf '%s\\n'", *WORDS)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == WORDS


def test_no_word_drives_the_terminal_or_ends_the_line() -> None:
    assert quote_command("scraper try", "a\x1b[2J\n\u202eb") == "scraper try 'a?[2J??b'"


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_every_command_that_is_shown_is_quoted(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                before += str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            value = ast.unparse(part.value)
            if COMMAND.search(before) and not value.startswith("quote_command("):
                assert PLAIN.fullmatch(value), (node.lineno, value)
            before += "WORD"
