"""Listing traps: chains of listing pages that bring nothing new, such as calendars, session ids and
filters of filters. They end here.

A page that brings its crawl no new product adds to the barren depth of the pages behind it: one
step if the crawl has each of its products, two if another page shows exactly the same, and five
if it shows none. A page that brings a new product resets the depth to zero. So a chain of empty
pages ends after `limits.fruitless` of them, a chain of repeated pages after two and a half times as
many, a chain through known products after five times as many, and a shop's own order never does. If
a crawl remembers products by a filter, it cannot recognise new ones, and other products are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from scraper.domain import Kind, Status
from scraper.frontier.pages import NewPage
from scraper.infra.database import dumps

if TYPE_CHECKING:
    from scraper.results.transaction import KeptPages

KNOWN_STEPS = 1
REPEATED_STEPS = 2
EMPTY_STEPS = 5

# What the pages list is compared with what was stored before this group.
READ = sa.text("""
UPDATE pages p SET lists = r.lists
  FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS r(id bigint, lists uuid)
 WHERE p.id = r.id
RETURNING p.id, p.fruitless, r.lists IS NULL AS empty, EXISTS (
    SELECT FROM pages o WHERE o.crawl_id = p.crawl_id AND o.lists = r.lists AND o.id <> p.id)
    AS repeated
""")


def collect_links(connection: sa.Connection, kept: KeptPages) -> list[NewPage]:
    """Returns the links of all pages. Links of listings carry the page that they were found on, and
    the barren depth behind it, if that page brings nothing new."""
    listings = {
        page.page_id: page
        for page, row in kept
        if row.kind == Kind.LISTING and row.status in (Status.OK, Status.UNCHANGED) and page.links
    }
    links = [link for page, _ in kept if page.page_id not in listings for link in page.links]
    if not listings:
        return links
    rows = [{"id": page_id, "lists": listings[page_id].lists} for page_id in sorted(listings)]
    for page_id, barren_depth, empty, repeated in connection.execute(READ, {"rows": dumps(rows)}):
        page = listings[page_id]
        if empty or repeated:
            steps = EMPTY_STEPS if empty else REPEATED_STEPS
        else:
            steps = 0 if page.only_new_links else KNOWN_STEPS
        behind = 0 if page.products or not steps else barren_depth + steps
        links += [
            replace(link, found_on=page_id, barren_depth=max(behind, link.barren_depth))
            for link in page.links
        ]
    return links


def max_barren_depth(pages_in_a_row: int) -> int:
    """Returns the depth that this number of empty pages in a row reaches."""
    return EMPTY_STEPS * pages_in_a_row


def combine_fingerprints(fingerprints: Sequence[int]) -> int:
    """Combines a set of product links into one number, whatever their order."""
    together = 0
    for fingerprint in set(fingerprints):
        together ^= fingerprint
    return together
