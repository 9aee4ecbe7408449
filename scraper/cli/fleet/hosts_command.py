"""`scraper host …`: what people see of hosts, and what they say of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import click
import redis
import sqlalchemy as sa
from redis.exceptions import RedisError

from scraper.errors import ServerUnavailableError
from scraper.frontier import hosts
from scraper.frontier.hosts import HostState
from scraper.infra import redaction
from scraper.infra.database import retried
from scraper.infra.tables import print_table
from scraper.settings import Settings

T = TypeVar("T")


def read(engine: sa.Engine, settings: Settings, host: str | None) -> list[HostState]:
    try:
        client = redis.Redis.from_url(
            settings.valkey_url, socket_connect_timeout=5, socket_timeout=10
        )
        with client, engine.connect() as connection:
            return hosts.states(connection, client, host)
    except RedisError as error:
        raise ServerUnavailableError(
            f"Redis does not answer: {redaction.scrubbed(error, settings.valkey_url)}"
        ) from None


def as_json(state: HostState) -> dict[str, Any]:
    return asdict(state)


def print_states(states: list[HostState]) -> None:
    if not states:
        click.echo("no host has pages open, and nobody has said anything of one")
        return
    columns = [
        "host",
        "rate",
        "at once",
        "burst",
        "pace",
        "in flight",
        "next",
        "due",
        "later",
        "leased",
        "state",
        "sites",
    ]
    print_table(columns, [_row(state) for state in states])


def pause(engine: sa.Engine, host: str, *, paused: bool) -> None:
    changed, known = _change(
        engine, host, lambda connection: hosts.set_paused(connection, host, paused=paused)
    )
    if paused:
        click.echo(f"{host}: paused" if changed else f"{host}: was paused already")
    else:
        click.echo(f"{host}: resumed" if changed else f"{host}: was not paused")
    _tell_unknown(host, known)


def set_budget(
    engine: sa.Engine,
    host: str,
    *,
    rate: str | None,
    concurrency: int | None,
    burst: int | None,
    reset: bool,
) -> None:
    def work(connection: sa.Connection) -> None:
        hosts.set_budget(
            connection, host, rate=rate, concurrency=concurrency, burst=burst, reset=reset
        )

    _, known = _change(engine, host, work)
    said = {"rate": rate, "concurrency": concurrency, "burst": burst}
    given = ", ".join(f"{key} {value}" for key, value in said.items() if value is not None)
    click.echo(f"{host}: {given}" if given else f"{host}: as the site definitions say")
    _tell_unknown(host, known)


def _change(engine: sa.Engine, host: str, work: Callable[[sa.Connection], T]) -> tuple[T, bool]:
    def changed() -> tuple[T, bool]:
        with engine.begin() as connection:
            return work(connection), hosts.is_known(connection, host)

    return retried(changed)


def _tell_unknown(host: str, known: bool) -> None:
    if not known:
        click.echo(
            f"no page of {host} is known yet; a host is written as in `scraper host list`, with its port",
            err=True,
        )


def _row(state: HostState) -> list[str]:
    slower = (
        f"{state.pace:.0%}" + (f" ({state.pace_per_s:.2g}/s)" if state.pace_per_s else "")
        if state.pace < 1
        else ""
    )
    return [
        state.host,
        (f"{state.rate_per_s:.3g}/s" if state.rate_per_s else "unlimited")
        if state.concurrency
        else "",
        str(state.concurrency or ""),
        str(state.burst or ""),
        slower,
        str(state.in_flight),
        "" if state.next_slot_s is None else f"{state.next_slot_s:.1f} s",
        f"{state.due:,}",
        f"{state.later:,}",
        f"{state.leased:,}",
        _said(state),
        " ".join(state.sites),
    ]


def _said(state: HostState) -> str:
    said = ["paused"] if state.paused else []
    if state.rests_s is not None:
        said.append(f"rests {state.rests_s:.0f} s ({state.why})")
    said += [f"{route['level']} for {route['site']} ({route['why']})" for route in state.routes]
    if state.override:
        said.append("set by hand")
    return ", ".join(said)
