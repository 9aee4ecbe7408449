"""`scraper sites`: the group, which imports no database for a subcommand that reads files alone."""

from __future__ import annotations

from importlib import import_module
from typing import cast

import click

from scraper.cli.common.importing import import_command
from scraper.errors import ConfigError
from scraper.registry import CORE_SUBCOMMANDS, inactive_plugin_with, plugin_subcommands

# Its own subcommands, which add themselves.
OWN = "scraper.cli.setup.sites"


class Sites(click.Group):
    """The group with its own subcommands and those of plug-ins, imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        import_module(OWN)
        return sorted([*super().list_commands(ctx), *plugin_subcommands("sites")])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = plugin_subcommands("sites").get(cmd_name)
        if module is None and f"sites {cmd_name}" not in CORE_SUBCOMMANDS:
            inactive = inactive_plugin_with("commands", f"sites {cmd_name}")
            if inactive is not None:
                raise ConfigError(f"{cmd_name!r} {inactive.explain_need()}")
        if module is not None:
            return cast(click.Command, import_command(module, cmd_name))
        import_module(OWN)
        return super().get_command(ctx, cmd_name)


@click.group(cls=Sites)
def sites() -> None:
    """Show and check definitions; pause, resume and delete sites."""
