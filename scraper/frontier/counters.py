"""A crawl's counters. They change in the transaction that changes its pages, so that the two always
agree."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import sqlalchemy as sa

from scraper.domain import Kind, Status
from scraper.frontier.pages import PageChange
from scraper.infra.database import dumps


@dataclass(slots=True)
class Counts:
    """What one transaction adds to a crawl's counters. The fields are columns of `crawls`."""

    discovery_total: int = 0
    discovery_done: int = 0
    product_total: int = 0
    product_done: int = 0
    ok: int = 0
    unchanged: int = 0
    gone: int = 0
    dead: int = 0
    invalid: int = 0
    dropped: int = 0
    fresh: int = 0
    not_modified: int = 0
    fetches: int = 0
    retries: int = 0
    links_cut: int = 0
    links_fruitless: int = 0
    links_disallowed: int = 0
    products_new: int = 0
    products_changed: int = 0
    products_repriced: int = 0

    def count_added(self, change: PageChange) -> None:
        """Counts a page that joined the crawl; a fresh page is final at once."""
        if change.kind.discovers:
            self.discovery_total += 1
        else:
            self.product_total += 1
        if change.status != Status.DUE:
            self.fresh += 1
            self.count_settled(change)

    def uncount_settled(self, kind: Kind, status: str) -> None:
        """Takes a page with that final status out of the counts. It joins the same crawl again."""
        if kind.discovers:
            self.discovery_total -= 1
            self.discovery_done -= 1
        else:
            self.product_total -= 1
            self.product_done -= 1
        setattr(self, status, getattr(self, status) - 1)

    def count_settled(self, change: PageChange) -> None:
        """Counts a page that reached a final status. A page that is due again counts nothing."""
        if not Status(change.status).final:
            return
        if change.kind.discovers:
            self.discovery_done += 1
        else:
            self.product_done += 1
        setattr(self, change.status, getattr(self, change.status) + 1)

    def count_written(self, inserted: bool, changed: bool, repriced: bool) -> None:
        """Counts a product that was stored."""
        self.products_new += inserted
        self.products_changed += changed
        self.products_repriced += repriced


class CountsByCrawl(dict[int, Counts]):
    """The counts of each crawl, by its id; new ones begin at zero."""

    def __missing__(self, crawl_id: int) -> Counts:
        self[crawl_id] = Counts()
        return self[crawl_id]


_NAMES = [field.name for field in fields(Counts)]
COUNT = sa.text(f"""
UPDATE crawls c
   SET {", ".join(f"{name} = c.{name} + i.{name}" for name in _NAMES)},
       progressed_at = CASE WHEN i.fetches + i.discovery_total + i.product_total > 0 THEN now()
                            ELSE c.progressed_at END
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(crawl_id bigint, {", ".join(f"{name} int" for name in _NAMES)})
 WHERE c.id = i.crawl_id
RETURNING c.id,
          c.discovery_total + c.product_total - c.discovery_done - c.product_done AS open
""")


def add_counts(connection: sa.Connection, counts: CountsByCrawl) -> list[int]:
    """Adds to the crawls' counters, as the transaction's last step. Returns the crawls without open
    pages."""
    if not counts:
        return []
    rows = [{"crawl_id": crawl_id, **asdict(counts[crawl_id])} for crawl_id in sorted(counts)]
    return [row.id for row in connection.execute(COUNT, {"rows": dumps(rows)}) if row.open == 0]
