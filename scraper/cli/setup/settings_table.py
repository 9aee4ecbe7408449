"""`scraper settings`: shows settings and their origins."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from pydantic.fields import FieldInfo

from scraper.cli.common.shared import load_settings, print_json
from scraper.cli.common.tables import print_table
from scraper.errors import ConfigError, did_you_mean
from scraper.infra.redaction import redact
from scraper.infra.setting_sources import short_name, variable
from scraper.registry import OFF_VARIABLE, plugin_hooks
from scraper.settings import ENDS_WITH, Settings

HIDDEN = "(hidden)"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--changed", is_flag=True, help="Only settings that a variable, a file or scraper.toml sets."
)
def settings(as_json: bool, changed: bool) -> None:
    """Show the settings in force, and where each comes from."""
    values, origins = load_settings(), Settings.sources()
    secrets = _list_secrets(values)
    rows: list[dict[str, Any]] = []
    for name, field in Settings.model_fields.items():
        if changed and name not in origins:
            continue
        rows.append(
            {
                "name": short_name(name, field),
                "value": _hide_secrets(getattr(values, name), field, secrets),
                "from": origins.get(name, "default"),
                "variable": variable(name, field),
                "description": field.description,
            }
        )
    _warn_of_unknown()
    if as_json:
        print_json(rows)
        return
    cells = [
        [row["name"], "-" if row["value"] is None else str(row["value"]), row["from"]]
        for row in rows
    ]
    print_table(["setting", "value", "from"], cells)


def _warn_of_unknown() -> None:
    """Names variables that look like settings. Kubernetes makes such ones too, so no other command
    does."""
    variables = {variable(name, field) for name, field in Settings.model_fields.items()}
    variables |= {OFF_VARIABLE, ENDS_WITH}
    for name in sorted(os.environ):
        if name.startswith("SCRAPER_") and name.removesuffix("_FILE") not in variables:
            click.echo(f"{name} is not a setting{did_you_mean(name, variables)}", err=True)


def _list_secrets(settings: Settings) -> set[str]:
    """Returns the secrets of plug-ins that can be read."""
    secrets: set[str] = set()
    for hooks in plugin_hooks().values():
        # Settings are also shown to find out why a plug-in cannot read its file of secrets.
        with suppress(ConfigError):
            secrets.update(hooks.secret_values(settings))
    return secrets - {""}


def _hide_secrets(value: Any, field: FieldInfo, secrets: set[str]) -> Any:
    """Hides a setting that is secret as a whole, and logins inside URLs."""
    if value is None:
        return None
    text = str(value) if isinstance(value, (str, Path)) else None
    if not field.repr or text in secrets:
        return HIDDEN
    return value if text is None else redact(text)
