"""The `scraper` command: a table of commands, each imported when somebody asks for it, so that
`scraper --help` stays fast and modules import what they need at their top.

Exit codes: 0 done; 1 something went wrong that can be fixed; 2 wrong usage, definition or setting;
3 a server does not answer; 4 a crawl that was waited for did not complete, or calls failed; 5 its
data is suspect; 6 the feed of changes does not hold what comes after a cursor; 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any

import click

from scraper.errors import ScraperError, ServerUnavailableError, did_you_mean

HELP = """
Crawls shop catalogues: polite, leased, exactly once into PostgreSQL.

\b
First steps:  scraper up                     start the servers (or set DATABASE_URL and REDIS_URL)
              scraper sites check            are the definitions in sites/ right?
              scraper crawl NAME --wait      crawl one, with progress
              scraper export NAME --format csv
"""

SETUP, CRAWLS, DATA = "Set-up", "Crawls", "Data"
FLEET = "Hosts, proxies, accounts and workers"
SECTIONS = (SETUP, CRAWLS, DATA, FLEET)

# Each command's section of the help, and its module.
COMMANDS: dict[str, tuple[str, str]] = {
    "accept": (CRAWLS, "scraper.cli.crawl.decisions"),
    "alerts": (DATA, "scraper.plugins.alerts.command"),
    "archive": (DATA, "scraper.plugins.archive.command"),
    "changes": (DATA, "scraper.cli.data.changes"),
    "consumers": (DATA, "scraper.cli.data.changes"),
    "crawl": (CRAWLS, "scraper.cli.crawl.crawls"),
    "dead": (CRAWLS, "scraper.cli.crawl.dead"),
    "dedup": (FLEET, "scraper.plugins.dedup.command"),
    "demo": (SETUP, "scraper.plugins.demo.command"),
    "down": (SETUP, "scraper.plugins.embedded.command"),
    "export": (DATA, "scraper.cli.data.export"),
    "history": (DATA, "scraper.cli.data.products"),
    "host": (FLEET, "scraper.cli.fleet.hosts"),
    "init": (SETUP, "scraper.cli.setup.init"),
    "login": (FLEET, "scraper.plugins.accounts.command"),
    "metrics": (FLEET, "scraper.plugins.metrics.command"),
    "migrate": (SETUP, "scraper.cli.setup.database"),
    "new": (SETUP, "scraper.plugins.author.commands.new"),
    "products": (DATA, "scraper.cli.data.products"),
    "proxies": (FLEET, "scraper.cli.fleet.proxies"),
    "psql": (SETUP, "scraper.cli.setup.database"),
    "repair": (SETUP, "scraper.plugins.author.commands.repair"),
    "reextract": (DATA, "scraper.plugins.archive.reextract.command"),
    "reject": (CRAWLS, "scraper.cli.crawl.decisions"),
    "report": (CRAWLS, "scraper.cli.crawl.report"),
    "run": (FLEET, "scraper.plugins.functions.command"),
    "settings": (SETUP, "scraper.cli.setup.init"),
    "shell": (SETUP, "scraper.plugins.author.commands.shell"),
    "sites": (SETUP, "scraper.cli.setup.sites"),
    "status": (CRAWLS, "scraper.cli.crawl.status"),
    "stop": (CRAWLS, "scraper.cli.crawl.crawls"),
    "try": (SETUP, "scraper.plugins.author.commands.trying"),
    "up": (SETUP, "scraper.plugins.embedded.command"),
    "watch": (CRAWLS, "scraper.cli.crawl.watch"),
    "why": (DATA, "scraper.cli.data.why"),
}


def function_of(command: str) -> str:
    """A function cannot have the name of a keyword, as `try`."""
    return f"{command}_" if iskeyword(command) else command


def help_of(command: str) -> str:
    """The first paragraph of a command's docstring, from its module's text: to import all of them
    takes a second."""
    _, module = COMMANDS[command]
    path = Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
    text = path.read_text("utf-8")
    function = re.search(rf"^def {function_of(command)}\(.*?\) -> ", text, re.DOTALL | re.MULTILINE)
    assert function is not None
    docstring = re.compile(r'"""(.*?)(?:\n\n|""")', re.DOTALL).search(text, function.end())
    assert docstring is not None
    return " ".join(docstring[1].split())


class Commands(click.Group):
    """Imports a command when it is asked for. Prints our own errors as one message and exits with
    their code; everything else is a bug and keeps its trace."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        # A tenth of the time would be looking for garbage, of which importing makes none.
        gc.disable()
        module = import_module(COMMANDS[cmd_name][1])
        gc.enable()
        command = getattr(module, function_of(cmd_name))
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(f"No such command {name!r}{did_you_mean(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands as click does, a section for each kind."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        for section in SECTIONS:
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (name, click.Command(name, help=help_of(name)).get_short_help_str(width))
                        for name, (its_section, _) in sorted(COMMANDS.items())
                        if its_section == section
                    ]
                )

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ScraperError as error:
            click.echo(f"scraper: {error}", err=True)
            ctx.exit(error.exit_code)
        except BrokenPipeError:
            sys.stderr.close()
            ctx.exit(0)
        except Exception as error:
            # Imported here, when it is too late for speed to matter.
            from sqlalchemy.exc import OperationalError

            if not isinstance(error, OperationalError):
                raise
            reason = str(error.orig).strip().splitlines()[0]
            click.echo(f"scraper: PostgreSQL stopped answering: {reason}", err=True)
            ctx.exit(ServerUnavailableError.exit_code)


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
            signal.signal(number, _end)


def _end(number: int, _: object) -> None:
    """Ends a command that is told to, or whose terminal was closed, with what it has started."""
    sys.exit(128 + number)
