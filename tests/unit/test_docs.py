"""The documentation names everything that can be set, typed or returned, and every link in it leads
somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from scraper import celeryconfig, errors
from scraper.cli.main import COMMANDS, main
from scraper.settings import Settings
from scraper.sites.schema import json_schema
from tests import outcome_table

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OPERATIONS = ROOT / "docs" / "operations.md"
DEFINITIONS = ROOT / "docs" / "site-definitions.md"
INTERRUPTED = 130
# A page names modules from the root, or from within the package.
BASES = (ROOT, ROOT / "scraper")

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
REGISTRIES = re.compile(
    r"(?:pypi|pythonhosted|npmjs|proxy\.golang|crates|rubygems|cdnjs|jsdelivr|unpkg)[\w.]*\.(?:org|com|io|net)",
    re.I,
)
MACHINE_PATH = re.compile(r"(?<![\w.$}/:-])/(?:home|root|work|tmp|Users|mnt|opt|srv)/\S*")


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def variables() -> list[str]:
    return [
        field.alias or f"SCRAPER_{name.upper()}" for name, field in Settings.model_fields.items()
    ]


@pytest.mark.parametrize("variable", variables())
def test_every_setting_has_a_row_with_its_default_in_operations(variable: str) -> None:
    rows = [line for line in text(OPERATIONS).splitlines() if line.startswith(f"| `{variable}` |")]
    assert len(rows) == 1, f"{variable} needs one row of the settings table in docs/operations.md"
    field = next(
        f for n, f in Settings.model_fields.items() if variable in (f.alias, f"SCRAPER_{n.upper()}")
    )
    default = rows[0].split("|")[2].strip().strip("`").replace(",", "")
    if field.default is not None:
        assert default == str(field.default), (
            f"{variable}: the table says {default!r}, the code {field.default!r}"
        )


def commands(group: click.Group, prefix: str = "scraper") -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_a_command_says_of_itself(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None and command.help is not None
    assert COMMANDS[name][1] == " ".join(command.help.split("\n\n")[0].split())


@pytest.mark.parametrize(("name", "command"), list(commands(main)))
def test_every_command_and_option_is_in_operations(name: str, command: click.Command) -> None:
    rows = [
        line
        for line in text(OPERATIONS).splitlines()
        if line.startswith((f"| `{name} ", f"| `{name}`"))
    ]
    assert len(rows) == 1, f"{name} needs one row of the commands table in docs/operations.md"
    for parameter in command.params:
        for option in parameter.opts:
            if option.startswith("--"):
                assert option in rows[0], f"{name}: {option} is not in its row"


def exit_codes() -> set[int]:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.ScraperError)
    ]
    return {0, INTERRUPTED, *(kind.exit_code for kind in kinds)}


@pytest.mark.parametrize("code", sorted(exit_codes()))
def test_every_exit_code_is_in_operations(code: int) -> None:
    assert re.search(rf"^\| {code} \|", text(OPERATIONS), re.M), (
        f"exit code {code} has no row in docs/operations.md"
    )


@pytest.mark.parametrize("queue", [queue.name for queue in celeryconfig.task_queues])
def test_every_queue_is_in_operations(queue: str) -> None:
    assert re.search(rf"^\| `{queue}` \|", text(OPERATIONS), re.M), (
        f"{queue} has no row in docs/operations.md"
    )


def keys(node: Any) -> Iterator[str]:
    """Every property name anywhere in a JSON schema."""
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield from node.get("properties", {})
        for child in node.values():
            yield from keys(child)
    elif isinstance(node, list):
        for child in node:
            yield from keys(child)


@pytest.mark.parametrize("key", sorted(set(keys(json_schema()))))
def test_every_key_of_a_definition_is_in_its_reference(key: str) -> None:
    assert f"`{key}`" in text(DEFINITIONS), f"{key} is not in docs/site-definitions.md"


def anchors(path: Path) -> set[str]:
    """The anchors GitHub gives a page's headings."""
    found = re.findall(
        r"^#+ +(.+?) *$", re.sub(r"^```.*?^```", "", text(path), flags=re.M | re.S), re.M
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_internal_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(text(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        meant = (page.parent / file).resolve() if file else page
        assert meant.exists(), f"{page.name}: {target} does not exist"
        if anchor:
            assert anchor in anchors(meant), f"{page.name}: {target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_a_package_registry_or_a_path_of_some_machine(page: Path) -> None:
    assert REGISTRIES.findall(text(page)) == []
    assert MACHINE_PATH.findall(text(page)) == []


def test_the_table_of_outcomes_is_what_the_code_does() -> None:
    page = text(outcome_table.PAGE)
    assert outcome_table.split(page)[1] == outcome_table.table(), (
        "run: python -m tests.outcome_table"
    )


def test_the_architecture_is_read_in_one_sitting() -> None:
    assert len(text(outcome_table.PAGE).splitlines()) <= 250


MODULE = re.compile(r"(?<![\w./-])((?:[a-z_]+/)+[a-z_0-9]+\.py)\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_a_page_names_are_there(page: Path) -> None:
    for path in MODULE.findall(text(page)):
        assert any((base / path).exists() for base in BASES), f"{page.name}: no {path}"
