"""Where a product's values come from: since when, by which crawl and definition, what is held, and
which archived page they can be read on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import sqlalchemy as sa

from scraper.domain import Fetched
from scraper.errors import NotFoundError, quote_command
from scraper.registry import find_service
from scraper.results.differences import keys_of, value_of
from scraper.results.held_products import REASONS
from scraper.results.judgement.plausibility import why_held
from scraper.results.products import parse_data
from scraper.sites.definition import Site
from scraper.views.named_sites import require_site

PRODUCT = sa.text("""
SELECT p.id, p.url, p.page_id, p.fetched_at, p.delisted_at, s.definition
  FROM products p JOIN sites s ON s.id = p.site_id
 WHERE s.name = :site AND p.external_id = :external_id
""")
# The crawl that wrote a version is the one that ended the version before it; the first one was
# written by the one that ran then, for a site has one at a time.
VERSIONS = sa.text("""
SELECT v.version, v.valid_from, CAST(v.data AS text) AS data, w.crawl_id, c.definition_hash FROM (
    SELECT version, changed_at AS valid_from, data FROM products WHERE id = :id
    UNION ALL SELECT version, valid_from, data FROM product_versions WHERE product_id = :id) v
  LEFT JOIN LATERAL (
       SELECT crawl_id FROM product_versions WHERE product_id = :id AND version = v.version - 1
       UNION ALL SELECT c.id FROM products p JOIN crawls c ON c.site_id = p.site_id
        WHERE p.id = :id AND v.version = 1
          AND p.first_seen_at BETWEEN c.started_at AND coalesce(c.finished_at, 'infinity')
        LIMIT 1) w ON true
  LEFT JOIN crawls c ON c.id = w.crawl_id
 ORDER BY v.version DESC
""")
HELD = sa.text(
    "SELECT field, CAST(value AS text) AS value, reason, crawl_id FROM held_values"
    " WHERE product_id = :id"
)
WAITS = sa.text("""
SELECT h.crawl_id, h.url, h.reason FROM held_products h JOIN sites s ON s.id = h.site_id
 WHERE s.name = :site AND h.external_id = :external_id
""")
# A crawl that found a product as it was, or did not ask for it since it was not due, is known for
# as long as it is the last one that reached its page.
CRAWLS = sa.text("""
SELECT seen.crawl_id AS crawl, coalesce(max(seen.at), c.started_at) AS at, c.status, c.suspect,
       string_agg(DISTINCT seen.what, ', ' ORDER BY seen.what) AS what
  FROM products p JOIN sites s ON s.id = p.site_id CROSS JOIN LATERAL (
       SELECT p.crawl_id, p.fetched_at AS at, 'read it last' AS what
       UNION ALL SELECT g.crawl_id, CASE WHEN g.last_outcome <> 'fresh' THEN g.settled_at END,
              CASE WHEN g.last_outcome = 'fresh' THEN 'listed it, not due'
                   WHEN g.status = 'unchanged' THEN 'found it unchanged' ELSE 'reached it' END
         FROM pages g WHERE g.id = p.page_id AND g.crawl_id <> p.crawl_id
       UNION ALL SELECT v.crawl_id, v.valid_to, 'changed it'
         FROM product_versions v WHERE v.product_id = p.id
       UNION ALL SELECT b.id, p.first_seen_at, 'brought it' FROM crawls b
        WHERE b.site_id = p.site_id
          AND p.first_seen_at BETWEEN b.started_at AND coalesce(b.finished_at, 'infinity')) seen
  JOIN crawls c ON c.id = seen.crawl_id
 WHERE s.name = :site AND p.external_id = :external_id
 GROUP BY seen.crawl_id, c.status, c.suspect, c.started_at ORDER BY seen.crawl_id DESC LIMIT 100
""")


@dataclass(frozen=True, slots=True)
class ArchivedAnswer:
    """An archived page as it was fetched, asked for by `page_url`; or why it cannot be read."""

    fetched: Fetched | None
    page_url: str
    problem: str = ""


class ArchivedPages(Protocol):
    """The pages that a plug-in has archived: a service."""

    def find_page(self, connection: sa.Connection, page_id: int) -> Mapping[str, Any] | None:
        """Returns the row of a page's newest answer, with its crawl's definition; None: it has no
        answer."""
        ...

    def read_page(self, row: Mapping[str, Any], body_max_bytes: int) -> ArchivedAnswer:
        """Returns the answer of such a row."""
        ...


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A value that was read and is not believed, or not yet (`reason` None)."""

    value: dict[str, Any]
    reason: str | None
    crawl: int

    @property
    def why(self) -> str:
        """The reason in words."""
        return "not judged yet" if self.reason is None else why_held(self.reason)


@dataclass(frozen=True, slots=True)
class Origin:
    """A stored value: since when it holds, which crawl wrote it by which definition (None: it is
    no longer kept), and which value is held back."""

    field: str
    value: Any
    since: datetime
    version: int
    crawl: int | None
    definition: str | None
    held: HeldBack | None


@dataclass(frozen=True, slots=True)
class Provenance:
    """`archived`: the row of the newest archived page, with its crawl's definition."""

    url: str
    fetched_at: datetime
    delisted_at: datetime | None
    site: Site
    origins: tuple[Origin, ...]
    archived: Mapping[str, Any] | None


def read(
    connection: sa.Connection,
    site: str,
    external_id: str,
    field: str | None = None,
    *,
    archived: bool = True,
) -> Provenance:
    """Raises NotFoundError for what is not there. `archived` unset: the archive, in which a page
    takes long to find, is not looked through."""
    require_site(connection, site)
    product = connection.execute(PRODUCT, {"site": site, "external_id": external_id}).first()
    if product is None:
        raise NotFoundError(_explain_missing(connection, site, external_id))
    rows = connection.execute(VERSIONS, {"id": product.id})
    versions = [(row, parse_data(row.data)) for row in rows]
    held = {
        row.field: HeldBack(parse_data(row.value), row.reason, row.crawl_id)
        for row in connection.execute(HELD, {"id": product.id})
    }
    definition = Site.model_validate(product.definition)
    names = _in_order(definition, versions[0][1] | dict.fromkeys(held))
    if field is not None and field not in names:
        raise NotFoundError(f"{external_id} has no {field!r}: {', '.join(names)}")
    archive = find_service(ArchivedPages) if archived else None  # type: ignore[type-abstract]
    return Provenance(
        product.url,
        product.fetched_at,
        product.delisted_at,
        definition,
        tuple(
            _make_origin(name, versions, held.get(name)) for name in names if field in (None, name)
        ),
        archive.find_page(connection, product.page_id) if archive is not None else None,
    )


def _in_order(definition: Site, names: Mapping[str, Any]) -> list[str]:
    """The names in the definition's order, then those that it does not have."""
    keys = dict.fromkeys(key for name in definition.product.all_fields for key in keys_of(name))
    return [*filter(names.__contains__, keys), *(name for name in names if name not in keys)]


def _explain_missing(connection: sa.Connection, site: str, external_id: str) -> str:
    waits = connection.execute(WAITS, {"site": site, "external_id": external_id}).first()
    if waits is None:
        command = quote_command("scraper products", site)
        return f"{site} has no product {external_id!r}; `{command}` shows ids"
    why = REASONS[waits.reason] if waits.reason else "its crawl is not judged yet"
    return (
        f"{site} has no product {external_id!r} yet: crawl {waits.crawl_id} read it at "
        f"{waits.url}, and it waits: {why}"
    )


def list_sources(site: Site, field: str) -> list[str]:
    """Returns the sources of a field, the first choice first; none if a function gives it."""
    spec = site.product.all_fields.get(field)
    if spec is None:
        return []
    items = site.product.items
    within = f" in {items.scope.described}" if items is not None and field in items.fields else ""
    return [f"{reading.described}{within}" for reading in spec.readings]


def crawls_of(connection: sa.Connection, site: str, external_id: str) -> list[sa.Row[Any]]:
    """Returns the crawls that are known to have seen a product, the newest first."""
    return list(connection.execute(CRAWLS, {"site": site, "external_id": external_id}))


def _make_origin(
    name: str, versions: Sequence[tuple[sa.Row[Any], dict[str, Any]]], held: HeldBack | None
) -> Origin:
    """Finds the version that brought the present value, going back from the newest one."""
    first, newest = versions[0]
    for version, data in versions[1:]:
        if value_of(data, name) != value_of(newest, name):
            break
        first = version
    return Origin(
        name,
        newest.get(name),
        first.valid_from,
        first.version,
        first.crawl_id,
        first.definition_hash and first.definition_hash[:12],
        held,
    )
