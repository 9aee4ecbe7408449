"""All commands of `scraper`, and which of them have no `--json`."""

from __future__ import annotations

from collections.abc import Iterator

import click

# Commands without `--json`, and why.
WITHOUT = {
    "demo": "a show for people",
    "metrics": "serves metrics until it is stopped",
    "psql": "a terminal of PostgreSQL",
    "shell": "a terminal of Python",
    "sites pick": "prints JSON only",
    "sites schema": "prints JSON only",
    "start": "runs until it is stopped",
}


def commands(
    command: click.Command, context: click.Context, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yields each command that does something, with its words."""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None, name
            inner = click.Context(child, parent=context, info_name=name)
            yield from commands(child, inner, (*words, name))
        if not command.invoke_without_command:
            return
    yield " ".join(words), command
