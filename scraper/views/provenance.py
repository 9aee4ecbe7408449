"""Where a product's values come from: since when, by which crawl and definition, what is held, and
which archived page they can be read on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from scraper.errors import NotFoundError
from scraper.settle.held_values import keys_of, value_of
from scraper.sites.definition import Site
from scraper.views.named_sites import require_site

PRODUCT = sa.text("""
SELECT p.id, p.url, p.page_id, p.fetched_at, p.delisted_at, s.definition
  FROM products p JOIN sites s ON s.id = p.site_id
 WHERE s.name = :site AND p.external_id = :external_id
""")
# The crawl that wrote a version is the one that ended the version before it.
VERSIONS = sa.text("""
SELECT v.version, v.valid_from, v.data, w.crawl_id, c.definition_hash FROM (
    SELECT version, changed_at AS valid_from, data FROM products WHERE id = :id
    UNION ALL SELECT version, valid_from, data FROM product_versions WHERE product_id = :id) v
  LEFT JOIN LATERAL (
       SELECT crawl_id FROM product_versions WHERE product_id = :id AND version = v.version - 1
       UNION ALL SELECT crawl_id FROM changes
        WHERE product_id = :id AND event = 'new' AND v.version = 1 LIMIT 1) w ON true
  LEFT JOIN crawls c ON c.id = w.crawl_id
 ORDER BY v.version DESC
""")
HELD = sa.text("SELECT field, value, reason, crawl_id FROM held_values WHERE product_id = :id")
ARCHIVED = sa.text("""
SELECT a.*, g.place, g.key, g.codec, c.definition
  FROM archived_pages a JOIN archive_segments g ON g.id = a.segment_id
  JOIN crawls c ON c.id = a.crawl_id
 WHERE a.page_id = :page_id ORDER BY a.fetched_at DESC LIMIT 1
""")


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A value that was read and is not believed, or not yet (`reason` None)."""

    value: dict[str, Any]
    reason: str | None
    crawl: int


@dataclass(frozen=True, slots=True)
class Origin:
    """A stored value: since when it holds, which crawl wrote it by which definition (None: it is
    not kept any more), and what is held beside it."""

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
    connection: sa.Connection, site: str, external_id: str, field: str | None = None
) -> Provenance:
    """Raises NotFoundError for what is not there."""
    require_site(connection, site)
    product = connection.execute(PRODUCT, {"site": site, "external_id": external_id}).first()
    if product is None:
        raise NotFoundError(
            f"{site} has no product {external_id!r}; `scraper products {site}` shows ids"
        )
    versions = connection.execute(VERSIONS, {"id": product.id}).all()
    held = {
        row.field: HeldBack(row.value, row.reason, row.crawl_id)
        for row in connection.execute(HELD, {"id": product.id})
    }
    definition = Site.model_validate(product.definition)
    there = versions[0].data | dict.fromkeys(held)
    keys = dict.fromkeys(key for name in definition.product.fields for key in keys_of(name))
    names = [name for name in keys if name in there] + [name for name in there if name not in keys]
    if field is not None and field not in names:
        raise NotFoundError(f"{external_id} has no {field!r}: {', '.join(names)}")
    archived = connection.execute(ARCHIVED, {"page_id": product.page_id}).mappings().first()
    return Provenance(
        product.url,
        product.fetched_at,
        product.delisted_at,
        definition,
        tuple(_origin(name, versions, held.get(name)) for name in names if field in (None, name)),
        dict(archived) if archived else None,
    )


def _origin(name: str, versions: Sequence[sa.Row[Any]], held: HeldBack | None) -> Origin:
    """From the newest version back to the one that has brought the value."""
    first = newest = versions[0]
    for version in versions[1:]:
        if value_of(version.data, name) != value_of(newest.data, name):
            break
        first = version
    return Origin(
        name,
        newest.data.get(name),
        first.valid_from,
        first.version,
        first.crawl_id,
        first.definition_hash and first.definition_hash[:12],
        held,
    )
