"""A shop that is crawled pass by pass on a real PostgreSQL, without a server."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa

from scraper.results.transaction import StoredGroup
from tests.support.making import (
    a_site,
    add,
    claimed,
    end,
    lease_all,
    new_page,
    open_crawl,
    settled,
    store,
    with_product,
)

A, B = "https://shop.example/p/a", "https://shop.example/p/b"


class Shop:
    """A site that is crawled pass by pass; each pass says what its pages give."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self.site = a_site(revisit="0s")
        self.crawl = (0, 0)

    def begin(self, *urls: str) -> dict[str, tuple[int, UUID]]:
        self.crawl = open_crawl(self.engine, self.site)
        add(self.engine, [new_page(self.crawl, url) for url in urls])
        (batch,) = lease_all(self.engine, "shop.example")
        lease = claimed(self.engine, batch)
        assert lease is not None
        return {page.url: (page.id, batch.id) for page in lease.pages}

    def give(self, page: tuple[int, UUID], external_id: str, **data: object) -> StoredGroup:
        one = settled(page[0], self.crawl, page[1])
        return store(self.engine, self.crawl, [with_product(one, self.crawl, external_id, data)])

    def end(self) -> None:
        end(self.engine, self.crawl)

    def once(self, external_id: str = "7", url: str = A, **data: object) -> None:
        self.give(self.begin(url)[url], external_id, **data)
        self.end()
