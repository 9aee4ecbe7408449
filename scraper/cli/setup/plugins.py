"""`scraper plugins`: the optional features of this installation. It works without
settings, since those of a broken plug-in cannot be imported."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from scraper.cli.common.tables import print_table
from scraper.errors import ConfigError
from scraper.registry import (
    FoundPlugin,
    found_plugins,
    hooks_of,
    keys_of,
    settings_of,
    tables_of,
)

# These switch off plug-ins whose settings or keys have an owner.
EXTENDED = ("scraper.settings", "scraper.sites.definition")
SHOWN = ("commands", "keys", "settings", "ticks", "tasks", "exports", "pages", "tables")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def plugins(as_json: bool) -> None:
    """Show which plug-ins are on, what they add, why some are off."""
    for module in EXTENDED:
        # What is broken is shown below.
        with suppress(ConfigError):
            import_module(module)
    rows = [_as_json(row) for row in found_plugins()]
    if as_json:
        click.echo(json.dumps(rows))
        return
    print_table(("plug-in", "", "adds", "what for"), [_plugin_cells(row) for row in rows])
    for row in rows:
        if row["off"]:
            click.echo(f"{row['name']} is off: {row['off']}")
        elif row["error"]:
            click.echo(row["error"])


def _as_json(row: FoundPlugin) -> dict[str, Any]:
    plugin, error = row.plugin, None
    keys: Sequence[str] = ()
    settings: Sequence[str] = ()
    tables: Sequence[str] = ()
    hooks: Sequence[str] = ()
    try:
        keys, settings = keys_of(row), settings_of(row)
        tables, hooks = tables_of(row), hooks_of(row)
    except ConfigError as failure:
        error = str(failure)
    return {
        "name": row.name,
        "on": not row.off,
        "off": row.off or None,
        "error": error,
        "summary": plugin.summary if plugin else "",
        "distribution": row.distribution,
        "commands": sorted(plugin.commands) if plugin else [],
        "keys": list(keys),
        "settings": list(settings),
        "ticks": [tick.name for tick in plugin.ticks] if plugin else [],
        "tasks": [task.name for task in plugin.tasks] if plugin else [],
        "exports": sorted(plugin.exports) if plugin else [],
        "services": sorted(plugin.services) if plugin else [],
        "pages": sorted(plugin.tab_pages) if plugin else [],
        "tables": list(tables),
        "hooks": list(hooks),
        "in_worker": bool(plugin and plugin.worker),
    }


def _plugin_cells(row: dict[str, Any]) -> list[str]:
    adds = "; ".join(f"{kind}: {', '.join(row[kind])}" for kind in SHOWN if row[kind])
    return [row["name"], "off" if row["off"] else "on", adds, row["summary"]]
