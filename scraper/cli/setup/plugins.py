"""`scraper plugins`: the optional features of this installation."""

from __future__ import annotations

from typing import Any

import click

from scraper.cli.common.shared import json_option, print_json
from scraper.cli.common.tables import print_table
from scraper.registry import FoundPlugin, found_plugins, keys_of, settings_of


@click.command()
@json_option("array")
def plugins(as_json: bool) -> None:
    """Show which plug-ins are on, what they add, why some are off."""
    rows = [_as_json(row) for row in found_plugins()]
    if as_json:
        print_json(rows)
        return
    print_table(("plug-in", "", "adds", "what for"), [_plugin_cells(row) for row in rows])
    for row in rows:
        if row["off"]:
            click.echo(f"{row['name']} is off: {row['off']}")


def _as_json(row: FoundPlugin) -> dict[str, Any]:
    plugin = row.plugin
    return {
        "name": row.name,
        "on": not row.off,
        "off": row.off or None,
        "summary": plugin.summary if plugin else "",
        "distribution": row.distribution,
        "commands": sorted(plugin.commands) if plugin else [],
        "keys": list(keys_of(row)),
        "settings": list(settings_of(row)),
        "ticks": [tick.name for tick in plugin.ticks] if plugin else [],
        "tasks": [task.name for task in plugin.tasks] if plugin else [],
        "in_worker": bool(plugin and plugin.worker),
    }


def _plugin_cells(row: dict[str, Any]) -> list[str]:
    kinds = ("commands", "keys", "settings", "ticks", "tasks")
    adds = "; ".join(f"{kind}: {', '.join(row[kind])}" for kind in kinds if row[kind])
    return [row["name"], "off" if row["off"] else "on", adds, row["summary"]]
