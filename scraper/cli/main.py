"""The `scraper` command: a table of commands, each imported only when it is used, so that
`scraper --help` stays fast and modules can import what they need at their top.

Exit codes: 0 done; 1 something went wrong that can be fixed; 2 wrong usage, definition or setting;
3 a server does not answer; 4 a crawl that was waited for did not complete, or calls failed; 5 its
data is suspect; 6 the feed of changes does not hold what comes after a cursor; 130 interrupted.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from functools import lru_cache
from keyword import iskeyword
from pathlib import Path
from typing import Any, NoReturn

import click

from scraper.cli.common.importing import import_command
from scraper.errors import ConfigError, ScraperError, ServerUnavailableError, did_you_mean
from scraper.plugin import CRAWLS, DATA, FLEET, SETUP, Command
from scraper.registry import (
    CORE_COMMANDS,
    inactive_plugin_with,
    plugin_commands,
    require_known_off,
)

HELP = "Crawls shop catalogues: polite, leased, exactly once into PostgreSQL."
# Shown where the plug-in of their command is on.
FIRST_STEPS = {
    "new URL": "write a definition for a shop",
    "try NAME": "what does it read?",
    "up": "start PostgreSQL and Redis here",
    "crawl NAME -o x.csv": "crawl it, into a file",
    "start": "run everything, schedules included",
}

SECTIONS = (SETUP, CRAWLS, DATA, FLEET)

PACKAGE = Path(__file__).parents[1]


@lru_cache(maxsize=1)
def all_commands() -> dict[str, Command]:
    """The commands of the core and of the plug-ins that are on, by name."""
    own = {name: row for name, row in plugin_commands().items() if " " not in name}
    return CORE_COMMANDS | own


def function_of(command: str) -> str:
    """A function cannot have the name of a keyword, as `try`."""
    return f"{command}_" if iskeyword(command) else command


def help_of(command: str) -> str:
    """Returns the first paragraph of a command's docstring. Commands of this package are read from
    their modules' texts, since to import all of them takes a second; those of others may be
    written in any way, and are imported."""
    module = all_commands()[command].module
    package, _, rest = module.partition(".")
    if package != PACKAGE.name:
        try:
            text = import_command(module, function_of(command)).help or ""
        except ScraperError as error:
            text = str(error)
        return " ".join(str(text).partition("\n\n")[0].split())
    text = PACKAGE.joinpath(*rest.split(".")).with_suffix(".py").read_text("utf-8")
    function = re.search(rf"^def {function_of(command)}\(.*?\) -> ", text, re.DOTALL | re.MULTILINE)
    assert function is not None
    docstring = re.compile(r'"""(.*?)(?:\n\n|""")', re.DOTALL).search(text, function.end())
    assert docstring is not None
    return " ".join(docstring[1].split())


class Commands(click.Group):
    """Imports a command when it is used. Prints a `ScraperError` as one message and exits with its
    code; any other error is a bug and keeps its traceback."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        as_json = "--json" in args
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if not as_json:
                raise
            _end_with_error(ctx, error.format_message(), error.exit_code, as_json=True)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(all_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in all_commands():
            return None
        command = import_command(all_commands()[cmd_name].module, function_of(cmd_name))
        assert isinstance(command, click.Command)
        if cmd_name not in CORE_COMMANDS | plugin_commands():
            # What was imported has switched the plug-in off.
            inactive = inactive_plugin_with("commands", cmd_name)
            assert inactive is not None
            raise ConfigError(f"{cmd_name!r} {inactive.explain_need()}")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in all_commands() and not name.startswith("-"):
            inactive = inactive_plugin_with("commands", name)
            if inactive is not None:
                raise ConfigError(f"{name!r} {inactive.explain_need()}")
            raise click.UsageError(f"No such command {name!r}{did_you_mean(name, all_commands())}")
        return super().resolve_command(ctx, args)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        with formatter.section("First steps"):
            formatter.write_dl(
                [
                    (f"scraper {words}", purpose)
                    for words, purpose in FIRST_STEPS.items()
                    if words.partition(" ")[0] in all_commands()
                ]
            )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands as click does, a section for each kind."""
        width = formatter.width - 6 - max(map(len, all_commands()))
        # A plug-in may name a section of its own.
        named = (command.section for command in all_commands().values())
        for section in dict.fromkeys((*SECTIONS, *named)):
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (name, click.Command(name, help=help_of(name)).get_short_help_str(width))
                        for name, command in sorted(all_commands().items())
                        if command.section == section
                    ]
                )

    def invoke(self, ctx: click.Context) -> Any:
        as_json = "--json" in ctx.args
        try:
            require_known_off()
            return super().invoke(ctx)
        except click.ClickException as error:
            if not as_json:
                raise
            _end_with_error(ctx, error.format_message(), error.exit_code, as_json=True)
        except ScraperError as error:
            _end_with_error(ctx, str(error), error.exit_code, as_json=as_json)
        except BrokenPipeError:
            sys.stderr.close()
            ctx.exit(0)
        except KeyboardInterrupt:
            click.echo("\nAborted!", err=True)
            ctx.exit(128 + signal.SIGINT)
        except Exception as error:
            # An error of the database comes from a module that is imported already. To import
            # it here would slow down each `--help`.
            errors = sys.modules.get("sqlalchemy.exc")
            if errors is None or not isinstance(error, errors.OperationalError):
                raise
            reason = str(error.orig).strip().splitlines()[0]
            message = f"PostgreSQL stopped answering: {reason}"
            _end_with_error(ctx, message, ServerUnavailableError.exit_code, as_json=as_json)


def _end_with_error(ctx: click.Context, message: str, code: int, *, as_json: bool) -> NoReturn:
    # A message may quote what a shop sent: escape sequences would drive the terminal.
    shown = "".join(char if char.isprintable() or char == "\n" else "?" for char in message)
    text = json.dumps({"error": shown, "exit_code": code}) if as_json else f"scraper: {shown}"
    click.echo(text, err=True)
    ctx.exit(code)


@click.group(
    cls=Commands,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="celery-scraper")
def main() -> None:
    # Definitions name Python functions of the working folder, as `celery -A` finds them.
    sys.path.append(os.getcwd())
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _exit_by_signal)


def _exit_by_signal(number: int, _: object) -> None:
    """Ends a command by an exception, so that the command also ends what it has started."""
    sys.exit(128 + number)
