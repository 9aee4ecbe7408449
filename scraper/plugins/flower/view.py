"""The JSON of the Crawls tab: the fleet, a crawl, a site's products, a product. `/api/…` serves it,
and the pages are drawn from it, so that both show the same numbers."""

from __future__ import annotations

import io
import itertools
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scraper.domain import Outcome
from scraper.errors import ConfigError, NotFoundError, quote_command
from scraper.feed import prices
from scraper.frontier.progress import CrawlProgress
from scraper.infra.redaction import redact
from scraper.plugins.flower import charts, site_history
from scraper.plugins.flower.charts import Point
from scraper.plugins.flower.latest.changes import compare_field, show_value
from scraper.plugins.flower.pictures.store import find_address, is_known
from scraper.quality import report as reports
from scraper.results.products import parse_data
from scraper.settings import Settings
from scraper.views import crawl_progress as progress
from scraper.views import named_sites, products, provenance, rows
from scraper.views import site_table as fleet

LIMIT = 50
LIMIT_MAX = 100
# The most products of a file for the browser.
EXPORT_MAX = 50_000
ID_MAX = 2**63 - 1
# Example pages of a reason.
EXAMPLES = 3
# The products of each site's newest complete crawl, and the prices that changed today.
WATCHED = sa.text("""
SELECT CAST(coalesce(sum(newest.products), 0) AS bigint) AS products,
       (SELECT CAST(coalesce(sum(products_repriced), 0) AS bigint) FROM crawls
         WHERE finished_at >= date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC')
       AS repriced
  FROM sites s
 CROSS JOIN LATERAL (
        SELECT q.products FROM crawls c JOIN crawl_quality q ON q.crawl_id = c.id
         WHERE c.site_id = s.id AND c.status = 'completed' AND q.products IS NOT NULL
         ORDER BY c.slot DESC, c.id DESC LIMIT 1) newest
""")


def fleet_listing(connection: sa.Connection, query: fleet.Query) -> dict[str, Any]:
    """Returns the fleet's totals, and a page of its sites or crawls; running crawls have a
    sparkline."""
    now = _database_time(connection)
    matching = fleet.read_rows(connection, query)
    times = {
        row.crawl.id: _crawl_span(row.crawl, now)
        for row in matching.rows
        if row.crawl is not None and row.crawl.started_at and row.crawl.active
    }
    sparks = charts.read_sparks(connection, times)
    return {
        "now": now,
        "totals": asdict(fleet.read_totals(connection)),
        "watched": connection.execute(WATCHED).one()._asdict(),
        "queues": fleet.queue_names(connection),
        "tags": fleet.tag_names(connection),
        "matching": matching.matching,
        "crawls": [_fleet_row(row, sparks) for row in matching.rows],
    }


def _fleet_row(row: fleet.FleetRow, sparks: dict[int, list[float]]) -> dict[str, Any]:
    crawl = {} if row.crawl is None else progress.as_json(row.crawl)
    # `why` says the same.
    for name in ("note", "last_error"):
        crawl.pop(name, None)
    return {
        **crawl,
        "id": crawl.get("id"),
        "site": row.site,
        "state": row.state,
        "why": row.why,
        "queues": row.queues,
        "tags": row.tags,
        "schedule": row.schedule,
        "timezone": row.timezone,
        "next_slot": row.next_slot,
        "spark": [] if row.crawl is None else sparks.get(row.crawl.id, []),
    }


def crawl_details(connection: sa.Connection, crawl_id: int) -> dict[str, Any]:
    """Returns everything about one crawl. Raises `NotFoundError`."""
    if not 0 < crawl_id <= ID_MAX:
        raise NotFoundError(f"no crawl has the id {crawl_id}")
    crawl, now = progress.read(connection, crawl_id), _database_time(connection)
    shown, points = charts.read_course(connection, crawl_id, *_crawl_span(crawl, now))
    shares = charts.read_shares(connection, crawl_id)
    hosts = charts.read_hosts(connection, crawl_id)
    dead, reasons = charts.read_dead_pages(connection, crawl_id)
    return {
        "now": now,
        "crawl": progress.as_json(crawl),
        "why": fleet.explain_crawls(connection, [crawl]).get(crawl_id, ""),
        "course": {"step_s": shown.step_s, "points": [_point_json(point) for point in points]},
        "outcomes": [
            {**_measured_json(row), **_outcome_meaning(row.name)} for row in shares.outcome
        ],
        "workers": [_measured_json(row) for row in shares.worker],
        "queues": [
            {**_measured_json(row), "region": row.name.partition(".")[2] or "any"}
            for row in shares.queue
        ],
        "proxies": [_measured_json(row) for row in shares.proxy],
        "hosts": [_measured_json(row) | {"slowest_s": round(row.slowest_s, 3)} for row in hosts],
        "hosts_in_all": hosts[0].hosts if hosts else 0,
        "errors": [
            {**_row_json(row), **_outcome_meaning(row.outcome)}
            for row in charts.read_errors(connection, crawl_id)
        ],
        "dead": [{**_row_json(row), **_outcome_meaning(row.reason)} for row in dead],
        "dead_reasons": [{**_row_json(row), **_outcome_meaning(row.reason)} for row in reasons],
        "fields": list(charts.fill_rates(connection, crawl_id)),
        **_judgement_json(connection, crawl_id),
    }


def _judgement_json(connection: sa.Connection, crawl_id: int) -> dict[str, Any]:
    """Returns the reasons why a crawl is suspect, with example pages, its held values, and whether
    it may be accepted or rejected."""
    report = reports.read_report(connection, crawl_id)
    judged = report.judged_at is not None
    rejected = any(reason["what"] == "rejected" for reason in report.reasons)
    return {
        "reasons": [
            {
                "field": reason["field"],
                "text": redact(reason["text"]),
                "level": reason.get("level", "suspect"),
                "examples": report.examples.get(reason["field"] or "", [])[:EXAMPLES],
            }
            for reason in report.reasons
        ],
        "held": [asdict(held) | {"why": held.why} for held in report.held],
        "may_accept": judged and report.accepted_at is None and not rejected,
        "may_reject": judged and not rejected,
    }


def site_details(connection: sa.Connection, settings: Settings, site: str) -> dict[str, Any]:
    """Returns everything about a site. Raises `NotFoundError`."""
    named_sites.require_site(connection, site)
    return {
        "now": _database_time(connection),
        "site": site,
        **site_history.read(connection, settings, site),
    }


def products_listing(
    connection: sa.Connection, site: str, search: str, sort: str, offset: int
) -> dict[str, Any]:
    """Returns a page of a site's products. Raises `NotFoundError` for an unknown site."""
    named_sites.require_site(connection, site)
    shown = products.read(
        connection, site, search=search, sort=sort, delisted=True, limit=LIMIT, offset=offset
    )
    return {
        "now": _database_time(connection),
        "site": site,
        "matching": shown[0].matching if shown else 0,
        "products": [_product_json(row) for row in shown],
    }


def product_details(connection: sa.Connection, site: str, external_id: str) -> dict[str, Any]:
    """Returns a product with its history, the newest change first. Raises `NotFoundError`."""
    named_sites.require_site(connection, site)
    stored = products.read(
        connection,
        site,
        where=[products.Condition("id", "=", external_id)],
        delisted=True,
    )
    if not stored:
        raise NotFoundError(f"{site} has no product {external_id!r}")
    versions = products.read_versions(connection, site, external_id)
    data, found = (
        parse_data(stored[0].data),
        provenance.read(connection, site, external_id, archived=False),
    )
    stock = prices.stock_field(data)
    changes = []
    for before, after in itertools.pairwise([{"data": {}}, *versions]):
        changes.append(
            {
                "at": after["valid_from"],
                "fields": [
                    compare_field(before["data"], after["data"], name)
                    for name in prices.changed_fields(before["data"], after["data"])
                ],
            }
        )
    return {
        "now": _database_time(connection),
        "site": site,
        "product": _product_json(stored[0]) | {"pictured": is_known(connection, site, external_id)},
        "values": [_origin_json(origin, found, data) for origin in found.origins],
        "crawls": [_row_json(row) for row in provenance.crawls_of(connection, site, external_id)],
        "prices": {
            name: products.field_history(versions, name) for name in prices.price_fields(data)
        },
        "stock": {stock: products.field_history(versions, stock)} if stock else {},
        "changes": changes[::-1][:LIMIT_MAX],
        "changes_in_all": len(changes),
    }


def export_products(
    connection: sa.Connection, site: str, search: str, sort: str, form: str
) -> bytes:
    """Returns all matching products as CSV or JSON lines. Raises `NotFoundError`, and `ConfigError`
    if there are too many."""
    types = named_sites.field_types(connection, site)
    shown = products.read(
        connection, site, search=search, sort=sort, delisted=True, limit=EXPORT_MAX
    )
    if shown and shown[0].matching > EXPORT_MAX:
        raise ConfigError(
            f"{shown[0].matching:,} products are too many for a browser (limit {EXPORT_MAX:,}; "
            f"fix: search for fewer, or type `{quote_command('scraper export', site)}`)"
        )
    table, text = rows.make_table(connection, site, types, shown), io.StringIO(newline="")
    (rows.write_csv if form == "csv" else rows.write_jsonl)(table, text)
    return text.getvalue().encode()


def _origin_json(
    origin: provenance.Origin, found: provenance.Provenance, data: dict[str, Any]
) -> dict[str, Any]:
    held = origin.held
    return {
        "field": origin.field,
        "value": show_value(origin.value, data.get(f"{origin.field}{prices.CURRENCY}")),
        "since": origin.since,
        "crawl": origin.crawl,
        "definition": origin.definition,
        "sources": provenance.list_sources(found.site, origin.field),
        "held": held
        and {
            "value": ", ".join(map(show_value, held.value.values())) or "nothing",
            "crawl": held.crawl,
            "why": held.why,
        },
    }


def _product_json(row: sa.Row[Any]) -> dict[str, Any]:
    data = parse_data(row.data)
    stock = prices.stock_field(data)
    return {
        "id": row.external_id,
        "url": row.url,
        "title": prices.title_of(data),
        "pictured": find_address(data, row.url) is not None,
        "prices": [
            {"field": n, "text": prices.format_amount(data[n], data[f"{n}{prices.CURRENCY}"])}
            for n in sorted(prices.price_fields(data), key=lambda name: name != "price")
        ],
        "stock": None if stock is None else bool(data[stock]),
        "changed_at": row.changed_at,
        "fetched_at": row.fetched_at,
        "delisted_at": row.delisted_at,
    }


def _database_time(connection: sa.Connection) -> datetime:
    now: datetime = connection.execute(sa.text("SELECT now()")).scalar_one()
    return now


def _crawl_span(crawl: CrawlProgress, now: datetime) -> tuple[datetime, datetime]:
    return crawl.started_at or crawl.created_at, crawl.finished_at or now


def _point_json(point: Point) -> dict[str, Any]:
    return {
        **_with_mean(asdict(point)),
        "covered_s": round(point.covered_s, 1),
        "per_s": round(point.per_s, 2),
    }


def _measured_json(row: sa.Row[Any]) -> dict[str, Any]:
    return _with_mean(row._asdict())


def _with_mean(sums: dict[str, Any]) -> dict[str, Any]:
    """Replaces the time of all tries by the mean time of a try."""
    seconds = sums.pop("seconds")
    return {**sums, "mean_s": round(seconds / sums["tries"], 3) if sums["tries"] else None}


def _row_json(row: sa.Row[Any]) -> dict[str, Any]:
    return row._asdict()


def _outcome_meaning(outcome: str | None) -> dict[str, str]:
    """Returns an outcome's phrase, and the party that it blames."""
    stored = Outcome.stored(outcome)
    phrase = (outcome or "") if stored is None else stored.phrase
    return {"phrase": phrase, "blame": Outcome.blame_of(outcome).value}
