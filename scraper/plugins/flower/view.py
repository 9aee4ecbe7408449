"""What the Crawls tab shows, as JSON: the fleet, a crawl, a site's products, a product. `/api/…`
serves it, and the pages are drawn from it, so that both show the same numbers."""

from __future__ import annotations

import io
import itertools
from dataclasses import asdict
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scraper.domain import Outcome
from scraper.errors import ConfigError, NotFoundError
from scraper.feed import prices
from scraper.frontier.progress import CrawlProgress
from scraper.infra.redaction import redact
from scraper.quality import report as reports
from scraper.results.products import parse_data
from scraper.settings import Settings
from scraper.views import charts as overview
from scraper.views import crawl_progress as progress
from scraper.views import named_sites, products, provenance, rows, site_history
from scraper.views import site_table as fleet
from scraper.views.charts import Point

LIMIT = 50
LIMIT_MAX = 100
# Products that a browser is given as a file.
EXPORT_MAX = 50_000
ID_MAX = 2**63 - 1
# Pages of a reason that are shown.
EXAMPLES = 3
# Characters of a value that are shown.
VALUE_MAX = 500


def listing(connection: sa.Connection, query: fleet.Query) -> dict[str, Any]:
    """The totals of the fleet, and the rows of a page of it: sites or crawls, those that run with a
    sparkline."""
    now = _now(connection)
    matching = fleet.rows(connection, query)
    times = {
        row.crawl.id: _times(row.crawl, now)
        for row in matching.rows
        if row.crawl is not None and row.crawl.started_at and row.crawl.active
    }
    sparks = overview.sparks(connection, times)
    return {
        "now": now,
        "totals": asdict(fleet.totals(connection)),
        "queues": fleet.queue_names(connection),
        "tags": fleet.tag_names(connection),
        "matching": matching.matching,
        "crawls": [_fleet_row(row, sparks) for row in matching.rows],
    }


def _fleet_row(row: fleet.FleetRow, sparks: dict[int, list[float]]) -> dict[str, Any]:
    crawl = {} if row.crawl is None else progress.as_json(row.crawl)
    # What it says, `why` does.
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
    """Everything about one crawl. Raises `NotFoundError` where there is none."""
    if not 0 < crawl_id <= ID_MAX:
        raise NotFoundError(f"there is no crawl {crawl_id}")
    crawl, now = progress.read(connection, crawl_id), _now(connection)
    shown, points = overview.course(connection, crawl_id, *_times(crawl, now))
    shares = overview.shares(connection, crawl_id)
    hosts = overview.hosts(connection, crawl_id)
    dead, reasons = overview.dead(connection, crawl_id)
    return {
        "now": now,
        "crawl": progress.as_json(crawl),
        "why": fleet.reasons(connection, [crawl]).get(crawl_id, ""),
        "course": {"step_s": shown.step_s, "points": [_point(point) for point in points]},
        "outcomes": [{**_measured(row), **_meaning(row.name)} for row in shares.outcome],
        "workers": [_measured(row) for row in shares.worker],
        "queues": [
            {**_measured(row), "region": row.name.partition(".")[2] or "any"}
            for row in shares.queue
        ],
        "proxies": [_measured(row) for row in shares.proxy],
        "hosts": [_measured(row) | {"slowest_s": round(row.slowest_s, 3)} for row in hosts],
        "hosts_in_all": hosts[0].hosts if hosts else 0,
        "errors": [
            {**_row(row), **_meaning(row.outcome)} for row in overview.errors(connection, crawl_id)
        ],
        "dead": [{**_row(row), **_meaning(row.reason)} for row in dead],
        "dead_reasons": [{**_row(row), **_meaning(row.reason)} for row in reasons],
        "fields": list(overview.fill_rates(connection, crawl_id)),
        **_judgement(connection, crawl_id),
    }


def _judgement(connection: sa.Connection, crawl_id: int) -> dict[str, Any]:
    """Why a crawl is suspect, with pages, what is held of it, and what a person may make of it."""
    report = reports.read_report(connection, crawl_id)
    judged = report.judged_at is not None
    rejected = any(reason["what"] == "rejected" for reason in report.reasons)
    return {
        "reasons": [
            {
                "field": reason["field"],
                "text": redact(reason["text"]),
                "examples": report.examples.get(reason["field"] or "", [])[:EXAMPLES],
            }
            for reason in report.reasons
        ],
        "held": [asdict(held) | {"why": held.why} for held in report.held],
        "may_accept": judged and report.accepted_at is None and not rejected,
        "may_reject": judged and not rejected,
    }


def site_details(connection: sa.Connection, settings: Settings, site: str) -> dict[str, Any]:
    """Everything about a site. Raises `NotFoundError` for an unknown one."""
    named_sites.require_site(connection, site)
    return {
        "now": _now(connection),
        "site": site,
        **site_history.read(connection, settings, site),
    }


def products_listing(
    connection: sa.Connection, site: str, search: str, sort: str, offset: int
) -> dict[str, Any]:
    """A page of a site's products. Raises `NotFoundError` for an unknown site."""
    named_sites.require_site(connection, site)
    shown = products.read(
        connection, site, search=search, sort=sort, delisted=True, limit=LIMIT, offset=offset
    )
    return {
        "now": _now(connection),
        "site": site,
        "matching": shown[0].matching if shown else 0,
        "products": [_product(row) for row in shown],
    }


def product_details(connection: sa.Connection, site: str, external_id: str) -> dict[str, Any]:
    """A product with all that it has been, the newest first. Raises `NotFoundError`."""
    named_sites.require_site(connection, site)
    stored = products.read(
        connection,
        site,
        where=[products.Condition("id", "=", external_id)],
        delisted=True,
    )
    if not stored:
        raise NotFoundError(f"{site} has no product {external_id!r}")
    versions = products.versions(connection, site, external_id)
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
                    _difference(before["data"], after["data"], name)
                    for name in prices.changed_fields(before["data"], after["data"])
                ],
            }
        )
    return {
        "now": _now(connection),
        "site": site,
        "product": _product(stored[0]),
        "values": [_origin(origin, found, data) for origin in found.origins],
        "crawls": [_row(row) for row in provenance.crawls_of(connection, site, external_id)],
        "prices": {
            name: products.field_history(versions, name) for name in prices.price_fields(data)
        },
        "stock": {stock: products.field_history(versions, stock)} if stock else {},
        "changes": changes[::-1][:LIMIT_MAX],
        "changes_in_all": len(changes),
    }


def export(connection: sa.Connection, site: str, search: str, sort: str, form: str) -> bytes:
    """The products that are shown, all pages of them, as CSV or JSON lines. Raises `NotFoundError`,
    and `ConfigError` where there are too many."""
    types = named_sites.field_types(connection, site)
    shown = products.read(
        connection, site, search=search, sort=sort, delisted=True, limit=EXPORT_MAX
    )
    if shown and shown[0].matching > EXPORT_MAX:
        raise ConfigError(
            f"{shown[0].matching:,} products are too many for a browser (at the most "
            f"{EXPORT_MAX:,}): search for fewer, or `scraper export {site}`"
        )
    table, text = rows.make_table(connection, site, types, shown), io.StringIO(newline="")
    (rows.write_csv if form == "csv" else rows.write_jsonl)(table, text)
    return text.getvalue().encode()


def _origin(
    origin: provenance.Origin, found: provenance.Provenance, data: dict[str, Any]
) -> dict[str, Any]:
    held = origin.held
    return {
        "field": origin.field,
        "value": _text(origin.value, data.get(f"{origin.field}{prices.CURRENCY}")),
        "since": origin.since,
        "crawl": origin.crawl,
        "definition": origin.definition,
        "sources": provenance.sources(found.site, origin.field),
        "held": held
        and {
            "value": ", ".join(map(_text, held.value.values())) or "nothing",
            "crawl": held.crawl,
            "why": held.why,
        },
    }


def _product(row: sa.Row[Any]) -> dict[str, Any]:
    data = parse_data(row.data)
    stock = prices.stock_field(data)
    return {
        "id": row.external_id,
        "url": row.url,
        "title": prices.title_of(data),
        "prices": [
            {"field": n, "text": prices.format_amount(data[n], data[f"{n}{prices.CURRENCY}"])}
            for n in prices.price_fields(data)
        ],
        "stock": None if stock is None else bool(data[stock]),
        "changed_at": row.changed_at,
        "fetched_at": row.fetched_at,
        "delisted_at": row.delisted_at,
    }


def _difference(before: dict[str, Any], after: dict[str, Any], name: str) -> dict[str, Any]:
    currency = f"{name}{prices.CURRENCY}"
    alike = before.get(currency) == after.get(currency)
    share = prices.percent_change(before.get(name), after.get(name)) if alike else None
    return {
        "field": name,
        "before": _text(before.get(name), before.get(currency)),
        "after": _text(after.get(name), after.get(currency)),
        "percent": prices.percent_text(share),
    }


def _text(value: Any, currency: str | None = None) -> str:
    if value is None:
        return ""
    return (
        prices.format_amount(value, currency) if not isinstance(value, (dict, list)) else str(value)
    )[:VALUE_MAX]


def _now(connection: sa.Connection) -> datetime:
    now: datetime = connection.execute(sa.text("SELECT now()")).scalar_one()
    return now


def _times(crawl: CrawlProgress, now: datetime) -> tuple[datetime, datetime]:
    return crawl.started_at or crawl.created_at, crawl.finished_at or now


def _point(point: Point) -> dict[str, Any]:
    return {
        **_with_mean(asdict(point)),
        "covered_s": round(point.covered_s, 1),
        "per_s": round(point.per_s, 2),
    }


def _measured(row: sa.Row[Any]) -> dict[str, Any]:
    return _with_mean(row._asdict())


def _with_mean(sums: dict[str, Any]) -> dict[str, Any]:
    """The sums, with the mean time of a try instead of all tries' time."""
    seconds = sums.pop("seconds")
    return {**sums, "mean_s": round(seconds / sums["tries"], 3) if sums["tries"] else None}


def _row(row: sa.Row[Any]) -> dict[str, Any]:
    return row._asdict()


def _meaning(outcome: str | None) -> dict[str, str]:
    """What an outcome is in words, and whom it blames."""
    known = Outcome.stored(outcome)
    phrase = (outcome or "") if known is None else known.phrase
    return {"phrase": phrase, "blame": Outcome.blame_of(outcome).value}
