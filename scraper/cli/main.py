"""The `scraper` command: a table of commands, each imported when somebody asks for it, so that
`scraper --help` stays fast and modules import what they need at their top.

Exit codes: 0 done; 1 something went wrong that can be mended; 2 wrong usage, definition or setting;
3 a server does not answer; 4 a crawl that was waited for did not complete, or calls failed; 5 its
data is suspect; 6 the feed of changes does not hold what comes after a cursor; 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from keyword import iskeyword
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

# Each command's module below scraper.cli, and the first paragraph of its help, which a test
# compares with the command's docstring.
COMMANDS = {
    "accept": (
        "crawl.decisions",
        "Believe CRAWL (an id, or a site for its newest one): what is held of it is released, and "
        "it is the new usual.",
    ),
    "alerts": (
        "data.price_alerts",
        "Show the rules of price alerts, and what came of them within a week.",
    ),
    "archive": (
        "data.archive",
        "Raw pages that were kept: what there is, what is too old, and whether it can be read.",
    ),
    "changes": (
        "data.changes",
        "Show new, changed, delisted and relisted products (of SITE), once each and in order.",
    ),
    "consumers": (
        "data.changes",
        "Show how far named consumers have read the feed of changes, and how much is left to each.",
    ),
    "crawl": ("crawl.crawls", "Crawl SITE now."),
    "dead": ("crawl.dead", "Dead and invalid pages: why, replayed, or dropped."),
    "dedup": (
        "fleet.dedup",
        "Sites with `dedup: bloom`: what is remembered of their finished pages.",
    ),
    "demo": (
        "setup.demo",
        "Crawl the bundled sample shop twice, through every real part, and show what was found.",
    ),
    "down": ("setup.servers", "Stop the embedded servers. Their data stays."),
    "export": (
        "data.export",
        "Write the products of SITE as CSV, JSON lines or Parquet, streamed, ordered by id.",
    ),
    "history": ("data.products", "Show what a product of SITE has been, version by version."),
    "host": (
        "fleet.hosts",
        "Hosts: how fast they are asked and why; pause, resume, and set their budget.",
    ),
    "init": (
        "setup.init",
        "Make a project in FOLDER (default: this one): settings, an example definition, "
        ".gitignore.",
    ),
    "login": (
        "fleet.login",
        "Accounts: who is logged in, who cannot and why. They go by their names, and show nothing "
        "of what is secret.",
    ),
    "mend": (
        "setup.mend",
        "Propose what would read a field of SITE that is read no longer, with proof, as a diff.",
    ),
    "metrics": (
        "fleet.metrics",
        "Serve the state of the whole fleet for Prometheus, from PostgreSQL, Redis and the broker.",
    ),
    "migrate": ("setup.servers", "Apply migrations to the database."),
    "new": (
        "setup.new",
        "Write a definition for the shop at URL, and prove it on some of its pages.",
    ),
    "products": ("data.products", "Show products of SITE."),
    "proxies": (
        "fleet.proxies",
        "Show the proxies' health and cost in requests, and which rest at which host, and why.",
    ),
    "psql": (
        "setup.servers",
        'Open the database in psql; ARGUMENTS are psql\'s own, such as -c "SELECT …".',
    ),
    "reextract": (
        "data.reextract",
        "Run SITE's definition of today over its archived product pages, without a request.",
    ),
    "reject": (
        "crawl.decisions",
        "Take back what CRAWL (an id, or a site for its newest one) wrote: values, new products, "
        "delistings.",
    ),
    "report": (
        "crawl.report",
        "Show how full each field of CRAWL (an id, or a site for its newest one) was, beside what "
        "is usual.",
    ),
    "run": (
        "fleet.run",
        "Call the async function MODULE:FUNCTION on the workers, once for each of URLS.",
    ),
    "settings": (
        "setup.init",
        "Show the settings in force, and where each comes from. Secrets are hidden.",
    ),
    "shell": (
        "setup.shell",
        "Open a Python prompt on a page: URL, FILE (a saved page), or the first of SITE.",
    ),
    "sites": ("setup.sites", "Look at the site definitions; pause and resume sites."),
    "status": (
        "crawl.status",
        "Show how things stand, on one screen; of SITE, what is its own alone.",
    ),
    "stop": ("crawl.crawls", "Stop a crawl now: what is not fetched yet is dropped."),
    "try": (
        "setup.trying",
        "Show what a definition gives on some pages of SITE, on FILE (a saved page) or on URL.",
    ),
    "up": ("setup.servers", "Start the embedded servers in the background and apply migrations."),
    "watch": ("crawl.watch", "Watch what `scraper status` shows, live; q or Ctrl-C ends it."),
    "why": (
        "data.why",
        "Show where the values of a product of SITE come from, all or FIELD: since when, by which "
        "crawl and definition, from which source of the page, what the page's other sources say, "
        "and what is held beside it.",
    ),
}


SECTIONS = {
    "setup.": "Set-up",
    "crawl.": "Crawls",
    "data.": "Data",
    "fleet.": "Hosts, proxies, accounts and workers",
}


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
        module = import_module(f"scraper.cli.{COMMANDS[cmd_name][0]}")
        gc.enable()
        # A function cannot have the name of a keyword, as `try`.
        command = getattr(module, f"{cmd_name}_" if iskeyword(cmd_name) else cmd_name)
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
        """As click does, from the table, a section for each folder of modules."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        for folder, title in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name, click.Command(name, help=text).get_short_help_str(width))
                        for name, (module, text) in sorted(COMMANDS.items())
                        if module.startswith(folder)
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
