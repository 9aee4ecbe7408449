"""`scraper dedup …`: what people see of a site's Bloom filter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
import redis
import sqlalchemy as sa
from redis.exceptions import RedisError

from scraper.dedup import filters as store
from scraper.dedup.bloom import BloomFilter, FilterState, FilterStore
from scraper.errors import NotFoundError, ServerUnavailableError
from scraper.frontier import crawls, sites
from scraper.infra import redaction
from scraper.infra.tables import print_table
from scraper.settings import Settings
from scraper.sites.definition import Site

KEEPS = "noeviction"


@dataclass(frozen=True, slots=True)
class Shown:
    site: Site
    filter: BloomFilter
    state: FilterState
    frontier: dict[str, int]  # pages by status

    @property
    def warning(self) -> str | None:
        if self.state.policy in (KEEPS, "unknown"):
            return None
        return (
            f"Redis evicts keys when its memory is full (maxmemory-policy {self.state.policy}): what it evicts of a filter "
            f"is fetched again (mend: {KEEPS})"
        )


def read(engine: sa.Engine, settings: Settings, name: str) -> Shown:
    with engine.connect() as connection:
        site_id, site = _found(connection, name)
        one = store.make_filter(site_id, store.filter_id(connection, site_id), site)
        frontier = store.frontier_of(connection, site_id)
    with _redis(settings) as client:
        return Shown(site, one, FilterStore(client).read_state(one), frontier)


def reset(engine: sa.Engine, settings: Settings, name: str) -> None:
    """The new id is what forgets; the old keys are deleted where no crawl asks them, and expire
    otherwise."""
    with engine.begin() as connection:
        site_id, _ = _found(connection, name)
        store.renew(connection, site_id)
        running = crawls.active_crawl(connection, site_id)
    if running is not None:
        click.echo(f"{name}: forgotten for the next crawl; crawl {running} keeps what it knows")
        return
    with _redis(settings) as client:
        keys = FilterStore(client).forget(site_id)
    click.echo(f"{name}: forgotten, {keys} keys deleted")


def as_json(shown: Shown) -> dict[str, Any]:
    state = shown.state
    return {
        "site": shown.site.name,
        "dedup": shown.site.dedup.by,
        "filter": shown.filter.key,
        "capacity": shown.filter.capacity,
        "remembers_s": shown.filter.life_s,
        "urls": state.urls,
        "keys": state.keys,
        "memory_bytes": state.memory_bytes,
        "bytes_a_url": state.memory_bytes / state.urls if state.urls else None,
        "false_positives": state.false_positives,
        "generations": [
            {
                "number": each.number,
                "age_s": each.age_s,
                "forgotten_in_s": each.left_s,
                "urls": sum(part.added for part in each.parts),
                "parts": [
                    {
                        "form": "bitmap",
                        "shards": part.shards,
                        "shard_bytes": part.shard_bytes,
                        "hashes": part.hashes,
                        "capacity": part.capacity,
                        "urls": part.added,
                        "false_positives": part.false_positives,
                    }
                    for part in each.parts
                ],
            }
            for each in state.generations
        ],
        "frontier": shown.frontier,
        "maxmemory_policy": state.policy,
        "warning": shown.warning,
    }


def print_state(shown: Shown) -> None:
    state = shown.state
    if shown.site.dedup.by == "exact" and not state.urls:
        click.echo(
            f"{shown.site.name}: exact; its pages stay in the frontier, and there is no filter"
        )
        return
    click.echo(
        f"{shown.site.name}: {state.urls:,} URLs remembered for {shown.site.revisit} at the most, made for "
        f"{shown.filter.capacity:,}"
    )
    each = f", {state.memory_bytes / state.urls:.2f} bytes a URL" if state.urls else ""
    click.echo(f"{state.keys} keys, {state.memory_bytes / 1e6:,.1f} MB{each}")
    click.echo(
        f"a new URL is taken for a known one with a probability of {state.false_positives:.4%}"
    )
    pages = ", ".join(f"{count:,} {status}" for status, count in sorted(shown.frontier.items()))
    click.echo(f"frontier: {pages or 'empty'}")
    if state.generations:
        rows = [
            [
                str(generation.number),
                f"{generation.age_s / 3600:.1f} h",
                f"{generation.left_s / 3600:.1f} h",
                f"{part.added:,}",
                f"{part.capacity:,}",
                f"{part.shards} bitmaps",
                f"{part.bytes / 1e6:.1f} MB",
                f"{part.false_positives:.4%}",
            ]
            for generation in state.generations
            for part in generation.parts
        ]
        print_table(
            ["generation", "age", "forgotten in", "URLs", "made for", "shards", "bits", "wrong"],
            rows,
        )
    if shown.warning:
        click.echo(f"scraper: {shown.warning}", err=True)


def _found(connection: sa.Connection, name: str) -> tuple[int, Site]:
    found = sites.find(connection, name)
    if found is None:
        raise NotFoundError(
            f"there is no site named {name!r}; `scraper sites list` shows those there are"
        )
    return found


@contextmanager
def _redis(settings: Settings) -> Iterator[redis.Redis]:
    try:
        with redis.Redis.from_url(
            settings.valkey_url, socket_connect_timeout=5, socket_timeout=10
        ) as client:
            yield client
    except RedisError as error:
        raise ServerUnavailableError(
            f"Redis does not answer: {redaction.scrubbed(error, settings.valkey_url)}"
        ) from None
