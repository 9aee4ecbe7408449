"""`scraper settings`: shows settings and their origins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scraper.cli.common.shared import load_settings, print_json
from scraper.infra.redaction import redact
from scraper.infra.setting_sources import short_name, variable
from scraper.settings import Settings

HIDDEN = "(hidden)"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--changed", is_flag=True, help="Only settings that differ from their default.")
def settings(as_json: bool, changed: bool) -> None:
    """Show the settings in force, and where each comes from."""
    values, origins = load_settings(), Settings.sources()
    rows: list[dict[str, Any]] = []
    for name, field in Settings.model_fields.items():
        if changed and name not in origins:
            continue
        rows.append(
            {
                "name": short_name(name, field),
                "value": _hide_secrets(name, getattr(values, name)),
                "from": origins.get(name, "default"),
                "variable": variable(name, field),
                "description": field.description,
            }
        )
    if as_json:
        print_json(rows)
        return
    for row in rows:
        value = "-" if row["value"] is None else row["value"]
        click.echo(f"{row['name']:<24}{value!s:<28}{row['from']}")


def _hide_secrets(name: str, value: Any) -> Any:
    """Hides passwords: a setting that is one, and those inside URLs."""
    if value is None:
        return None
    if name in ("secret_key", "flower_password"):
        return HIDDEN
    return redact(str(value)) if isinstance(value, (str, Path)) else value
