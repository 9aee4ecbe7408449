"""One address for each product of a site with `one_address`: links with the same id lead to it.

The first address that lists name is taken, so that a value that differs by address, such as the
category in a breadcrumb, stays the same. Another one follows when its page fails, or when a whole
crawl found no link to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

import sqlalchemy as sa

from scraper.domain import Kind
from scraper.frontier.crawls import PARTIAL
from scraper.frontier.pages import NewPage
from scraper.infra.database import dumps
from scraper.results.transaction import PageResult
from scraper.rules.urls import host_of

# Locked in the order of ids, so that two writers take turns.
READ = sa.text("""
SELECT a.external_id, a.url, a.fingerprint, a.crawl_id,
       coalesce(p.status IN ('gone', 'dead', 'invalid'), false) AS failed,
       a.crawl_id < (SELECT max(id) FROM crawls c
                      WHERE c.site_id = a.site_id AND c.id < :crawl_id
                        AND c.status = 'completed' AND c.trigger <> ALL (:partial)) AS unlinked
  FROM product_addresses a
  LEFT JOIN pages p ON p.site_id = a.site_id AND p.fingerprint = a.fingerprint
 WHERE a.site_id = :site_id AND a.external_id = ANY (:ids)
 ORDER BY a.external_id FOR UPDATE OF a
""")
UPDATE = sa.text("""
UPDATE product_addresses a
   SET url = r.url, fingerprint = r.fingerprint, crawl_id = greatest(a.crawl_id, :crawl_id)
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(external_id text, url text, fingerprint uuid)
 WHERE a.site_id = :site_id AND a.external_id = r.external_id
""")
# Another writer may have been first.
ADD = sa.text("""
INSERT INTO product_addresses AS a (site_id, external_id, url, fingerprint, crawl_id)
SELECT :site_id, external_id, url, fingerprint, :crawl_id
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(external_id text, url text, fingerprint uuid)
 ORDER BY external_id
    ON CONFLICT (site_id, external_id) DO UPDATE SET crawl_id = a.crawl_id
RETURNING external_id, url, fingerprint
""")


@dataclass(frozen=True, slots=True)
class AddressChoice:
    url: str
    fingerprint: UUID


def join_addresses(
    connection: sa.Connection, page: PageResult, ids: Mapping[str, str]
) -> PageResult:
    """Returns the result of a list with links to products at the one address of each. `ids`: the
    id of each linked address."""
    linked: dict[str, dict[str, AddressChoice]] = {}
    for link in page.links:
        if link.kind is Kind.PRODUCT and link.url in ids:
            address = AddressChoice(link.url, link.fingerprint)
            linked.setdefault(ids[link.url], {})[link.url] = address
    if not linked:
        return page
    site_id = page.links[0].site_id
    chosen = _choose_addresses(connection, site_id, page.crawl_id, linked)
    links: dict[UUID, NewPage] = {}
    for link in page.links:
        if link.kind is Kind.PRODUCT and link.url in ids:
            link = _lead_to(link, chosen[ids[link.url]])
        links.setdefault(link.fingerprint, link)
    return replace(page, links=list(links.values()))


def _choose_addresses(
    connection: sa.Connection,
    site_id: int,
    crawl_id: int,
    linked: Mapping[str, Mapping[str, AddressChoice]],
) -> dict[str, AddressChoice]:
    values = {"site_id": site_id, "crawl_id": crawl_id}
    rows = connection.execute(READ, {**values, "ids": sorted(linked), "partial": list(PARTIAL)})
    chosen: dict[str, AddressChoice] = {}
    renewed: dict[str, AddressChoice] = {}
    for row in rows:
        address = AddressChoice(row.url, row.fingerprint)
        others = linked[row.external_id]
        if row.failed or (row.unlinked and row.url not in others):
            address = next((others[url] for url in sorted(others) if url != row.url), address)
        if address.url != row.url or (row.url in others and row.crawl_id < crawl_id):
            renewed[row.external_id] = address
        chosen[row.external_id] = address
    if renewed:
        connection.execute(UPDATE, {**values, "rows": _dump_addresses(renewed)})
    added = {key: urls[min(urls)] for key, urls in linked.items() if key not in chosen}
    if added:
        for row in connection.execute(ADD, {**values, "rows": _dump_addresses(added)}):
            chosen[row.external_id] = AddressChoice(row.url, row.fingerprint)
    return chosen


def _dump_addresses(addresses: Mapping[str, AddressChoice]) -> str:
    return dumps(
        [
            {"external_id": key, "url": address.url, "fingerprint": address.fingerprint}
            for key, address in sorted(addresses.items())
        ]
    )


def _lead_to(link: NewPage, address: AddressChoice) -> NewPage:
    return replace(
        link, url=address.url, fingerprint=address.fingerprint, host=host_of(address.url)
    )
