"""Helpers that commands share: settings, servers with a clear error if one does not answer,
common options, and JSON that is safe to print on a terminal."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from scraper import settings
from scraper.domain import as_json
from scraper.errors import ConfigError, ServerUnavailableError
from scraper.infra import redaction
from scraper.process import servers
from scraper.settings import Settings

if TYPE_CHECKING:
    import redis

    from scraper.feed.reader import Since

T = TypeVar("T")
FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)

# The control characters below U+007F are escaped by orjson itself.
TERMINAL_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def json_option(shape: Literal["array", "object"] = "object") -> Callable[[FC], FC]:
    """Returns the option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help=f"One JSON {shape}.")


def parsed_by(
    parse: Callable[[str], T],
) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """Returns the callback of an option or argument that `parse` reads; a ValueError of `parse`
    becomes a usage error."""

    def callback(_: click.Context, __: click.Parameter, text: str | None) -> T | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """Parses a date or time in ISO 8601 (UTC without a zone), or an age such as `7d`. Raises
    ValueError with a fix."""
    text = text.strip()
    if not re.match(r"\d{4}-", text):
        # Most commands take no time.
        from scraper.sites.grammar.scalars import parse_duration

        return (now or datetime.now(UTC)) - timedelta(seconds=parse_duration(text))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a date (fix: as in 2026-11-20 or 2026-11-20T18:00)"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def parse_since(text: str) -> Since:
    """Parses `1234` (a cursor), `oldest`, `now`, `2h` (ago), `2025-11-21`, or
    `2025-11-21T06:00+01:00` (UTC without a zone)."""
    if text.isdecimal() and len(text) < 19:
        return int(text)
    if text in ("oldest", "now"):
        return "oldest" if text == "oldest" else "now"
    try:
        return parse_time(text)
    except ValueError:
        raise ConfigError(
            f"--since {text!r} is neither a cursor nor a time (fix: a number from an export or a "
            "change, oldest, now, 2h, 7d, or a date and time as in 2025-11-21T06:00Z)"
        ) from None


def complete_site(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Returns the sites whose names begin with `incomplete`, for shell completion. Reads definition
    files only: no server is needed."""
    # Most commands load no definition.
    from scraper.sites.loader import list_definition_files

    names = [path.stem for path in list_definition_files(load_settings().sites_dir)]
    return [name for name in names if name.startswith(incomplete)]


def load_settings() -> Settings:
    return settings.load()


def require_project(settings: Settings) -> None:
    """Raises `ConfigError` unless this folder is a project, so that no command creates files in an
    unrelated folder."""
    if not settings.in_project:
        raise ConfigError(
            f"{os.getcwd()} is not a project: there is neither scraper.toml nor sites/ here\n"
            "type `scraper init` to make it one, or go to your project's folder"
        )


@contextmanager
def open_redis(settings: Settings) -> Iterator[redis.Redis]:
    """Yields a client of Redis. Raises `ServerUnavailableError` if Redis does not answer."""
    # Most commands need only PostgreSQL.
    from scraper.infra import redis_clients

    servers.require_redis(settings)
    try:
        with redis_clients.connect(settings.valkey_url) as client:
            yield client
    except redis_clients.RedisError as error:
        reason = redaction.scrub_error(error, settings.valkey_url)
        raise ServerUnavailableError(f"Redis stopped answering: {reason}") from None


def print_json(value: Any) -> None:
    """Prints a value as JSON. Terminal control characters in shops' texts are escaped."""
    click.echo(escape_controls(as_json(value).decode()))


def escape_controls(text: str) -> str:
    """Escapes terminal control characters in JSON text."""
    return TERMINAL_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_paused(
    kind: Literal["site", "host"], name: str, *, paused: bool, changed: bool, as_json: bool
) -> None:
    """Prints the result of pausing or resuming a site or host."""
    if as_json:
        print_json({kind: name, "paused": paused, "changed": changed})
    elif paused:
        click.echo(f"{name}: paused" if changed else f"{name}: was paused already")
    else:
        click.echo(f"{name}: resumed" if changed else f"{name}: was not paused")
