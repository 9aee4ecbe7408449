"""Commands in messages: what a shop or a user chose stays one word of them when they are pasted."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator

import pytest

from scraper.errors import quote_command
from tools.house.modules import PACKAGE, Module, modules_below

# Numbers, and names that the program itself gives.
PLAIN = re.compile(r"(?:\w+\.)?(?:id|crawl_id|running|running\[0\]|beat)")
COMMAND = re.compile(r"(?:\bscraper [a-z]|celery -A|`kubectl|`psql)[^`(;]*$")
pytestmark = pytest.mark.parses
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


def words_of_commands(module: Module) -> Iterator[tuple[int, str]]:
    """The line and the source of each value that an f-string puts into a command."""
    for node in module.nodes:
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                before += str(part.value)
                continue
            assert isinstance(part, ast.FormattedValue)
            if COMMAND.search(before):
                yield node.lineno, ast.unparse(part.value)
            before += "WORD"


def test_every_command_that_is_shown_is_quoted() -> None:
    modules = [module for module in modules_below(PACKAGE) if module.path.parent.name != "feed"]
    words = [
        (f"{module.name}:{line} {word}", word)
        for module in modules
        for line, word in words_of_commands(module)
    ]
    assert words, "the search finds no command"
    bare = [
        place
        for place, word in words
        if not (word.startswith("quote_command(") or PLAIN.fullmatch(word))
    ]
    assert not bare, "\n".join(bare)
