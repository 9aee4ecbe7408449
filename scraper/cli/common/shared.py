"""What every command needs: our errors as one message, the settings, the database, JSON that is
harmless to a terminal."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import click

from scraper.errors import ScraperError, ServerUnavailableError

if TYPE_CHECKING:
    import sqlalchemy as sa

    from scraper.settings import Settings

# orjson escapes what is below
STEERING = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Command(click.Group):
    """Prints our own errors as one message and exits with their code; everything else is a bug and
    keeps its trace."""

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
            # imported when it is too late for speed to matter
            from sqlalchemy.exc import OperationalError

            if not isinstance(error, OperationalError):
                raise
            click.echo(
                f"scraper: PostgreSQL stopped answering: {str(error.orig).strip().splitlines()[0]}",
                err=True,
            )
            ctx.exit(ServerUnavailableError.exit_code)


def load_settings() -> Settings:
    from scraper import settings

    return settings.load()


def require_project(settings: Settings) -> None:
    """Raises ConfigError in a folder that is no project: nothing is made where nobody expects it."""
    from scraper.errors import ConfigError

    if not settings.in_project:
        raise ConfigError(
            f"{os.getcwd()} is no project: there is neither scraper.toml nor sites/ here\n"
            "type `scraper init` to make it one, or go to the folder of yours"
        )


def open_engine() -> sa.Engine:
    """The database, known to answer and to be migrated."""
    from scraper.infra import migrations, servers
    from scraper.infra.database import make_engine

    settings = load_settings()
    require_project(settings)
    servers.require_postgres(settings)
    engine = make_engine(settings.postgres_url)
    migrations.require_current(engine)
    return engine


def print_json(value: Any) -> None:
    """As JSON of the same meaning that does not steer a terminal, whatever a shop has sent."""
    from scraper.infra.database import dumps

    click.echo(harmless(dumps(value)))


def harmless(text: str) -> str:
    """JSON text of the same meaning that does not steer a terminal."""
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
