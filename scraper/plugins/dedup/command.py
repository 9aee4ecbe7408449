"""`scraper dedup …`: shows and resets a site's Bloom filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import sqlalchemy as sa

from scraper.actions.named_definitions import stored_site
from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import (
    complete_site,
    json_option,
    load_settings,
    open_redis,
    print_json,
)
from scraper.cli.common.tables import print_table
from scraper.frontier import crawls
from scraper.plugins.dedup import filters as store
from scraper.plugins.dedup.bloom import BloomFilter, FilterState, FilterStore
from scraper.plugins.dedup.keys import DedupKeys
from scraper.settings import Settings
from scraper.sites.definition import Site

SAFE_POLICIES = ("noeviction", "unknown")
COLUMNS = ["generation", "age", "forgotten in", "URLs", "capacity", "shards", "bits", "wrong"]


@dataclass(frozen=True, slots=True)
class SiteFilter:
    """A site's filter, its state, and the frontier's pages by status."""

    site: Site
    filter: BloomFilter
    state: FilterState
    frontier: dict[str, int]

    @property
    def warning(self) -> str | None:
        if self.state.policy in SAFE_POLICIES:
            return None
        return (
            f"Redis evicts keys when its memory is full (maxmemory-policy {self.state.policy}): "
            "evicted URLs of a filter are fetched again (fix: noeviction)"
        )


@click.group()
def dedup() -> None:
    """Inspect and reset the filters of sites with `dedup: bloom`."""


@dedup.command("show")
@click.argument("site", shell_complete=complete_site)
@json_option()
def dedup_show(site: str, as_json: bool) -> None:
    """Show the filter of SITE: generations, URLs, keys, memory, and error rate."""
    site_filter = _read_filter(open_engine(), load_settings(), site)
    if as_json:
        print_json(_as_json(site_filter))
    else:
        _print_filter(site_filter)


@dedup.command("reset")
@click.argument("site", shell_complete=complete_site)
@json_option()
def dedup_reset(site: str, as_json: bool) -> None:
    """Forget which pages of SITE were fetched: its next crawl fetches all of them. A running crawl
    keeps its filter."""
    # The new id makes the next filter empty. The old keys are deleted unless a crawl uses them;
    # then they expire.
    with open_engine().begin() as connection:
        site_id, _ = stored_site(connection, site)
        store.renew_filter(connection, site_id)
        crawl_id = crawls.active_crawl(connection, site_id)
    keys = 0
    if crawl_id is None:
        with open_redis(load_settings()) as client:
            keys = FilterStore(client).delete_filters(site_id)
    if as_json:
        print_json({"site": site, "running_crawl": crawl_id, "keys_deleted": keys})
    elif crawl_id is not None:
        click.echo(f"{site}: forgotten for the next crawl; crawl {crawl_id} keeps its filter")
    else:
        click.echo(f"{site}: forgotten, {keys} keys deleted")


def _read_filter(engine: sa.Engine, settings: Settings, name: str) -> SiteFilter:
    with engine.connect() as connection:
        site_id, site = stored_site(connection, name)
        filter_ = store.make_filter(site_id, store.read_filter_id(connection, site_id), site)
        frontier = store.count_pages(connection, site_id)
    with open_redis(settings) as client:
        return SiteFilter(site, filter_, FilterStore(client).read_state(filter_), frontier)


def _as_json(site_filter: SiteFilter) -> dict[str, Any]:
    state, filter_ = site_filter.state, site_filter.filter
    return {
        "site": site_filter.site.name,
        "dedup": site_filter.site.of(DedupKeys).dedup.by,
        "filter": filter_.key,
        "capacity": filter_.capacity,
        "remembers_s": filter_.life_s,
        "urls": state.urls,
        "keys": state.keys,
        "memory_bytes": state.memory_bytes,
        "bytes_a_url": state.memory_bytes / state.urls if state.urls else None,
        "false_positives": state.false_positives,
        "generations": [
            {
                "number": generation.number,
                "age_s": generation.age_s,
                "forgotten_in_s": generation.left_s,
                "urls": sum(part.added for part in generation.parts),
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
                    for part in generation.parts
                ],
            }
            for generation in state.generations
        ],
        "frontier": site_filter.frontier,
        "maxmemory_policy": state.policy,
        "warning": site_filter.warning,
    }


def _print_filter(site_filter: SiteFilter) -> None:
    state, site = site_filter.state, site_filter.site
    if site.of(DedupKeys).dedup.by == "exact" and not state.urls:
        click.echo(f"{site.name}: exact; its pages stay in the frontier, without a filter")
        return
    click.echo(
        f"{site.name}: {state.urls:,} URLs remembered for at most {site.revisit}, capacity "
        f"{site_filter.filter.capacity:,}"
    )
    density = f", {state.memory_bytes / state.urls:.2f} bytes per URL" if state.urls else ""
    click.echo(f"{state.keys} keys, {state.memory_bytes / 1e6:,.1f} MB{density}")
    click.echo(
        f"a new URL is taken for a known one with a probability of {state.false_positives:.4%}"
    )
    frontier = sorted(site_filter.frontier.items())
    pages = ", ".join(f"{count:,} {status}" for status, count in frontier)
    click.echo(f"frontier: {pages or 'empty'}")
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
    if rows:
        print_table(COLUMNS, rows)
    if site_filter.warning:
        click.echo(f"scraper: {site_filter.warning}", err=True)
