"""The reference pages of the documentation, made from the code: settings, commands, keys of a
definition, outcomes.

`python -m tests.reference` writes them into docs/reference; a test compares.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from scraper import errors
from scraper.cli.main import COMMANDS, SECTIONS, main
from scraper.domain import Blame, Outcome
from scraper.extract.heuristics.stock_words import WORDS
from scraper.rules.verdict import RetryPolicy, judge_outcome
from scraper.settings import Settings, variable
from scraper.sites.schema import json_schema

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- Made by `python -m tests.reference` from the code: edit that. -->\n\n"
SETTINGS = """# Settings

Set them as environment variables, or as lines of `scraper.toml` in the folder where a process starts: `attempts_max = 3` for
`SCRAPER_ATTEMPTS_MAX`, `database_url = "…"` for `DATABASE_URL`. The environment wins. `scraper settings` shows what is in force and where
each value comes from. A wrong value ends the process with exit code 2 and the setting's name.

Any setting may come from a file: `DATABASE_URL_FILE=/run/secrets/database_url` (`database_url_file` in `scraper.toml`). Use that for
secrets. Give all processes the same values; timeouts and limits may differ between machines.
"""
COMMANDS_HEAD = """# Commands

On a terminal, commands print tables; into a pipe, tab-separated lines. `-h` or `--help` explains each one. `eval
"$(_SCRAPER_COMPLETE=bash_source scraper)"` in `~/.bashrc` completes names (`zsh_source` and `fish_source` for other shells).

## Exit codes
"""
KEYS = """# Keys of a definition

`scraper sites schema -o sites/schema.json` writes the same for editors. A default of – means: nothing, or what the meaning says.
"""
OUTCOMES = """# Outcomes of a page

What can come of one try, who is to blame, and what follows with the default number of tries. `scraper dead list --reason` takes these names.
"""
WORDS_HEAD = """# Words for in stock and out of stock

What a field of `type: bool` reads in a short text, whatever stands around it and in any case: "In stock (39 available)", "Nur noch 3 auf Lager". A
text that says both has a problem. `when:` says it in other words.
"""
EXIT_CODES = {
    0: "done",
    errors.ScraperError.exit_code: "something went wrong that you can fix; the message says how",
    errors.ConfigError.exit_code: "wrong usage, definition or setting, or something that does not exist",
    errors.ServerUnavailableError.exit_code: (
        "PostgreSQL, Redis, the broker, a folder or a bucket does not answer, the database is not "
        "migrated, or no worker serves the queue of `scraper run`"
    ),
    errors.CrawlFailedError.exit_code: "the crawl did not complete, or calls of `scraper run` failed",
    errors.SuspectError.exit_code: "the crawl, or what re-extraction would write, is suspect",
    errors.CursorError.exit_code: "the feed no longer holds what comes after a cursor: take a whole export",
    errors.RESTART_CODE: "a worker asks to be started again; nothing is wrong",
    130: "interrupted with Ctrl-C; a crawl goes on where workers run",
}
# Models whose keys are among those of another one that is shown.
WITHIN = {
    "FieldSource": "FieldSpec",
    "Source": "FieldSpec",
    "IdSource": "FieldSpec",
    "LoginSign": "Success",
}


def pages() -> dict[str, str]:
    """Each page's text by the name of its file."""
    texts = {
        "settings.md": SETTINGS + "\n" + settings_table(),
        "commands.md": COMMANDS_HEAD
        + "\n"
        + exit_codes_table()
        + "\n"
        + "\n".join(command_parts()),
        "keys.md": KEYS + "\n" + "\n".join(key_parts()),
        "outcomes.md": OUTCOMES + "\n" + outcomes_table(),
        "words.md": WORDS_HEAD
        + "\n"
        + table(("language", "true", "false"), [(name, *row) for name, row in WORDS.items()]),
    }
    return {name: MADE + text for name, text in texts.items()}


def settings_table() -> str:
    rows = [
        (f"`{variable(name, field)}`", shown_default(field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    return table(("variable", "default", "meaning"), rows)


def exit_codes_table() -> str:
    return table(("code", "means"), [(str(code), text) for code, text in EXIT_CODES.items()])


def command_parts() -> Iterator[str]:
    for section in SECTIONS:
        yield f"## {section}\n"
        for name, (its_section, _) in sorted(COMMANDS.items()):
            if its_section == section:
                command = main.get_command(click.Context(main), name)
                assert command is not None
                yield from command_part(command, f"scraper {name}")


def command_part(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context)).replace("[OPTIONS]", "").strip()
    lines = [f"### {name}\n", f"`{f'{name} {usage}'.strip()}`\n"]
    lines += [
        " ".join(part.split()) + "\n" for part in help_of(command).split("\n\n") if part.strip()
    ]
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    lines += [option_line(option, context) for option in options]
    yield "\n".join(lines) + ("\n" if options else "")
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            subcommand = command.get_command(context, child)
            assert subcommand is not None
            yield from command_part(subcommand, f"{name} {child}")


def help_of(command: click.Command) -> str:
    return (command.help or "").replace("\b\n", "")


def option_line(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None
    names, text = record
    return f"- `{names}`: {plain(text)}"


def key_parts() -> Iterator[str]:
    schema = json_schema()
    definitions = schema["$defs"]
    places = places_of(schema, definitions)
    for part, owner in WITHIN.items():
        assert set(definitions[part]["properties"]) <= set(definitions[owner]["properties"])
    for model, place in places.items():
        node = definitions.get(model, schema)
        heading = "A site" if place == "" else f"`{place}`"
        lead = f"{plain(node['description'])}\n\n" if place else ""
        rows = [
            (
                f"`{key}`",
                takes(value),
                key_default(key, node, value),
                plain(value.get("description", "")),
            )
            for key, value in node["properties"].items()
        ]
        yield f"## {heading}\n\n{lead}{table(('key', 'takes', 'default', 'meaning'), rows)}"


def places_of(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, str]:
    """Where each model is first met, as a path of keys, in the order of the definition."""
    places = {"Site": ""}
    waiting = [("", schema)]
    while waiting:
        place, node = waiting.pop(0)
        for key, value in node["properties"].items():
            for name in re.findall(r'#/\$defs/(\w+)"', json.dumps(value)):
                if name in places or name in WITHIN:
                    continue
                below = f"{place}.{key}".lstrip(".") + (".NAME" if name == "FieldSpec" else "")
                places[name] = below
                waiting.append((below, definitions[name]))
    return places


def takes(node: dict[str, Any]) -> str:
    """What a key may be given, in words."""
    if "$ref" in node:
        return "a mapping"
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return ", ".join(f"`{word}`" for word in node["enum"])
    if "anyOf" in node:
        kinds = [takes(choice) for choice in node["anyOf"] if choice.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    bounds = bounds_of(node)
    match node.get("type"):
        case "string":
            return "text"
        case "boolean":
            return "true, false"
        case "integer" | "number":
            return "a number" + bounds
        case "array":
            return "a list"
        case _:
            return "a mapping"


def bounds_of(node: dict[str, Any]) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is None or high is None:
        return "" if low is None else f" from {low:,}"
    return f" from {low:,} to {high:,}"


def key_default(key: str, node: dict[str, Any], value: dict[str, Any]) -> str:
    if key in node.get("required", ()):
        return "**needed**"
    default = value.get("default")
    return "–" if isinstance(default, dict) else shown_default(default)


def shown_default(default: Any) -> str:
    if default is None or default == "" or default == [] or default == ():
        return "–"
    return f"`{json.dumps(default)}`" if isinstance(default, bool) else f"`{default}`"


def outcomes_table() -> str:
    rows = [
        (
            f"`{outcome}`",
            outcome.phrase,
            "" if outcome.blame is Blame.NOBODY else str(outcome.blame),
            follows(outcome),
        )
        for outcome in Outcome
    ]
    return table(("outcome", "what happened", "whose fault", "what follows"), rows)


def follows(outcome: Outcome) -> str:
    """What is done about it with the default number of attempts, the host answering others."""
    tries = 0
    while True:
        verdict = judge_outcome(outcome, tries, RetryPolicy(), random.Random(0))
        if verdict.status.final:
            break
        if not verdict.charged:
            return "again, free"
        tries += 1
    end = f"`{verdict.status}`" if verdict.charged else f"`{verdict.status}`, not charged"
    return f"again, {tries + 1} tries in all, then {end}" if tries else end


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(
        "|" + "|".join(cell.replace("|", "\\|") for cell in line) + "|\n" for line in lines
    )


def plain(text: str) -> str:
    """One line, in which nothing but code is HTML."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else part.replace("<", "&lt;") for part in parts)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
