"""Keeps what product pages add to the rows of an interface: as held values of stored products, and
in products that wait for their crawl's judgement. A later crawl takes them from there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from scraper.domain import content_hash
from scraper.infra.database import dumps
from scraper.infra.statements import sql
from scraper.plugins.platforms.page_fields import PageFields, PageValues
from scraper.results.differences import value_of
from scraper.results.held_values import HOLD
from scraper.results.products import NewProduct, parse_data

# A page is read again after this time if its product still lacks a field.
READ_FOR = "30 days"

KNOWN = sa.text(sql("plugins/platforms/known_values.sql"))
STORED = sa.text(sql("plugins/platforms/stored_rows.sql"))
WAITING = sa.text(sql("plugins/platforms/waiting_rows.sql"))
FORGET_READINGS = sa.text(sql("plugins/platforms/forget_readings.sql"))

READ_LATELY = sa.text(f"""
SELECT fingerprint FROM pages
 WHERE site_id = :site_id AND fingerprint = ANY (CAST(:fingerprints AS uuid[]))
   AND content_hash = :reading AND fetched_at > now() - interval '{READ_FOR}'
""")

NAMED_BY = sa.text("""
SELECT pg.id, l.url FROM pages pg JOIN pages l ON l.id = pg.found_on
 WHERE pg.id = ANY (:ids) AND l.kind = 'listing'
""")

ADD_TO_WAITING = sa.text("""
UPDATE held_products h SET data = i.data, content_hash = i.content_hash
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(site_id int, external_id text, data jsonb, content_hash uuid)
 WHERE h.site_id = i.site_id AND h.external_id = i.external_id
""")


def add_known_values(
    connection: sa.Connection, products: Sequence[NewProduct], fields: PageFields
) -> list[NewProduct]:
    """Returns the products with the values that earlier pages have given."""
    keys = [
        {"site_id": product.site_id, "external_id": product.external_id} for product in products
    ]
    rows = connection.execute(KNOWN, {"rows": dumps(keys), "fields": list(fields.names)})
    stored = {row.external_id: parse_data(row.data) for row in rows}
    return [
        _with_values(product, stored.get(product.external_id, {}), fields) for product in products
    ]


def _with_values(product: NewProduct, known: Mapping[str, Any], fields: PageFields) -> NewProduct:
    added = {
        key: value
        for name in fields.list_wanted(product.data)
        for key, value in value_of(known, name).items()
    }
    if not added:
        return product
    data = {**product.data, **added}
    return replace(product, data=data, content_hash=content_hash(data))


def read_lately(
    connection: sa.Connection, site_id: int, fingerprints: Iterable[UUID], reading: UUID
) -> set[UUID]:
    """Returns the pages whose fields were read the same way not long ago."""
    values = {"site_id": site_id, "fingerprints": [str(key) for key in fingerprints]}
    return set(connection.execute(READ_LATELY, values | {"reading": reading}).scalars())


def forget_readings(
    connection: sa.Connection, site_id: int, crawl_id: int, fingerprints: Iterable[UUID]
) -> None:
    """Lets the crawl request these pages whole, however fresh they are."""
    values = {"site_id": site_id, "crawl_id": crawl_id}
    keys = [str(key) for key in fingerprints]
    connection.execute(FORGET_READINGS, values | {"fingerprints": keys})


def read_naming_pages(connection: sa.Connection, page_ids: Sequence[int]) -> dict[int, str]:
    """Returns the URLs of the listings that have named these pages."""
    rows = connection.execute(NAMED_BY, {"ids": list(page_ids)})
    return {row.id: row.url for row in rows}


def store_values(
    connection: sa.Connection, pages: Mapping[int, tuple[PageFields, PageValues]]
) -> set[int]:
    """Stores what pages say of products that their crawl has read by the interface. Returns the
    pages whose products are known."""
    ids = {"ids": list(pages)}
    held, waiting, matched = [], [], set()
    for row in connection.execute(STORED, ids).all():
        matched.add(row.page)
        values = _values_for(row, pages[row.page])
        for name in pages[row.page][0].names:
            if value := value_of(values, name):
                keys = {"product_id": row.product_id, "crawl_id": row.crawl_id, "field": name}
                held.append(
                    keys | {"difference": "appeared", "value": value, "contradicted": False}
                )
    for row in connection.execute(WAITING, ids).all():
        matched.add(row.page)
        if values := _values_for(row, pages[row.page]):
            data = parse_data(row.data) | values
            keys = {"site_id": row.site_id, "external_id": row.external_id}
            waiting.append(keys | {"data": data, "content_hash": content_hash(data)})
    if held:
        connection.execute(HOLD, {"rows": dumps(held)})
    if waiting:
        connection.execute(ADD_TO_WAITING, {"rows": dumps(waiting)})
    return matched


def _values_for(row: sa.Row[Any], reading: tuple[PageFields, PageValues]) -> dict[str, Any]:
    fields, values = reading
    data = parse_data(row.data)
    return values.values_for(data, fields.list_wanted(data))
