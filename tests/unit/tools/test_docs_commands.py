"""What the documentation names is there: commands with their options, modules of its Python, words
of the screens. And it is short."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from scraper.cli.main import main
from scraper.domain import CrawlStatus, Outcome, Status
from tools.docs import reference
from tools.house.modules import PACKAGE, modules_below
from tools.house.references import is_importable

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
GENERATED = {DOCS / "reference" / name for name in reference.pages()}
WRITTEN = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(set(DOCS.rglob("*.md")) - GENERATED),
]
WORDS_MAX = 20_000
# A command ends where the shell's own signs, a comment or the end of code begin.
COMMAND = re.compile(r"(?:^|[`$;&(] ?|&& )scraper ((?:[^`#;&|<>\n]|\\\n)+)", re.M)
PLACEHOLDERS = {"CRAWL": "1", "N": "1"}
# The command of the example plug-in, one of an earlier version in the upgrade notes, and a thread.
OTHERS = {"owners", "mend", "watchdog"}
# A command with its subcommand in a string: alone, in backticks, or in an example.
SHOWN = re.compile(r"(?:^|[`>] ?)scraper ([a-z]+(?: [a-z]+)?)")


def typed(page: Path) -> Iterator[list[str]]:
    """The words of each `scraper` command that a page shows."""
    code = re.findall(r"```(?:sh|text)?\n.*?```|^    .*$|`[^`\n]+`", page.read_text(), re.S | re.M)
    for text in code:
        for found in COMMAND.findall(text):
            try:
                words = shlex.split(found.strip(" )…'\""))
            except ValueError:
                continue
            if words and re.fullmatch(r"[a-z]+", words[0]) and words[0] not in OTHERS:
                yield [PLACEHOLDERS.get(word, word) for word in words]


def mistake(words: list[str]) -> str:
    """What click says of a command before it would run; empty where nothing."""
    group: click.Command = main
    context = click.Context(main, info_name="scraper")
    while isinstance(group, click.Group) and words and not words[0].startswith("-"):
        command = group.get_command(context, words[0])
        if command is None:
            return "" if group.invoke_without_command else f"no command {words[0]}"
        group, words = command, words[1:]
        context = click.Context(group, parent=context)
    known = {option for parameter in group.params for option in parameter.opts}
    known |= {option for parameter in group.params for option in parameter.secondary_opts}
    options = [word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]
    unknown = [word for word in options if word not in known | {"--help", "-h"}]
    return f"{context.command_path} has no {unknown}" if unknown else ""


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_commands_and_options_that_a_page_names_are_there(page: Path) -> None:
    assert [mistake(words) for words in typed(page) if mistake(words)] == []


def test_commands_are_found_and_judged() -> None:
    assert sum(len(list(typed(page))) for page in WRITTEN) > 100
    assert mistake(["crawl", "shop", "--wait"]) == ""
    assert mistake(["dead", "replay", "shop", "--dry-run"]) == ""
    assert mistake(["crawl", "shop", "--no-such-option"])
    assert mistake(["dead", "resurrect"])
    assert mistake(["resurrect", "shop"])


def shown_commands() -> Iterator[tuple[str, list[str]]]:
    """The place and the words of each command that messages and help texts show."""
    for module in modules_below(PACKAGE):
        for node in module.nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for command in SHOWN.findall(node.value):
                    yield f"{module.name}:{node.lineno} {command}", command.split()


@pytest.mark.parses
def test_commands_that_messages_name_are_there() -> None:
    commands = [(place, words) for place, words in shown_commands() if words[0] not in OTHERS]
    assert len(commands) > 100
    assert [place for place, words in commands if mistake(words)] == []


def imported(text: str) -> Iterator[str]:
    """What the Python blocks of a page import from the package: `module.name`."""
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        for node in ast.walk(ast.parse(block.replace("…", "..."))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scraper"):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_what_its_python_imports_from_us_is_there() -> None:
    names = {name for page in WRITTEN for name in imported(page.read_text())}
    assert len(names) > 10
    assert [name for name in sorted(names) if not is_importable(name.split("."))] == []


def test_an_import_of_what_is_not_there_is_noticed() -> None:
    page = "```python\nfrom scraper.api import Page, no_such_name\n```"
    assert [is_importable(name.split(".")) for name in imported(page)] == [True, False]


def test_the_glossary_has_the_words_of_pages_and_crawls() -> None:
    glossary = (DOCS / "reference" / "glossary.md").read_text()
    words = {
        word for row in re.findall(r"^\| (.+?) \|", glossary, re.M) for word in row.split(", ")
    }
    shown = {str(status) for status in [*Status, *CrawlStatus]} - {"running"}
    assert shown - words == set()
    outcomes = (DOCS / "reference" / "outcomes.md").read_text()
    assert all(f"`{outcome}`" in outcomes for outcome in Outcome)


def test_log_events_that_monitoring_names_are_in_the_code() -> None:
    page = (DOCS / "how-to" / "monitoring.md").read_text()
    code = "".join(path.read_text() for path in (ROOT / "scraper").rglob("*.py"))
    _, _, logs = page.partition("## Logs")
    events = [text.strip("… ") for text in re.findall(r"`([a-zA-Z]+ [^`\n]+|… [^`\n]+)`", logs)]
    assert len(events) > 10
    assert [event for event in events if event not in code] == []


def test_the_documentation_is_short() -> None:
    """What is made from the code does not count, nor do signs that are not words."""
    words = [
        word for page in WRITTEN for word in page.read_text().split() if re.search(r"\w", word)
    ]
    assert len(words) <= WORDS_MAX
