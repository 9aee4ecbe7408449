"""Crawlee's ParselCrawler, over impit (its default) or httpx: `crawlee_crawler.py impit|httpx`.

Its guide "Scaling crawlers": ConcurrencySettings with the concurrency wanted as minimum and as
maximum, so that the pool begins with it. MemoryStorageClient, which its guide on storage clients
calls the fast one. What it does against blocking is off (session pool, blocked-page check,
browser-like headers, cookies), for this shop blocks no client; so is its logging. Rows are collected
by the handler and written 100 at a time.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from common import CONCURRENCY, READ, START, Batches, more_listings, row, wait_for_go
from crawlee import ConcurrencySettings, Request
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.http_clients import HttpxHttpClient, ImpitHttpClient
from crawlee.storage_clients import MemoryStorageClient

CLIENTS = {
    # It trusts no certificate that signs itself.
    "impit": lambda: ImpitHttpClient(
        persist_cookies_per_session=False, browser=None, verify=not READ
    ),
    "httpx": lambda: HttpxHttpClient(
        persist_cookies_per_session=False, header_generator=None, http2=False
    ),
}


async def main(client: str) -> None:
    batches = Batches()
    await batches.open()
    crawler = ParselCrawler(
        http_client=CLIENTS[client](),
        storage_client=MemoryStorageClient(),
        concurrency_settings=ConcurrencySettings(
            min_concurrency=CONCURRENCY,
            max_concurrency=CONCURRENCY,
            desired_concurrency=CONCURRENCY,
        ),
        use_session_pool=False,
        retry_on_blocked=False,
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def listing(context: ParselCrawlingContext) -> None:
        if context.request.url == START:
            await context.add_requests(
                [Request.from_url(url) for url in more_listings(context.selector)]
            )
        await context.enqueue_links(selector="a.product-link", label="product")

    @crawler.router.handler("product")
    async def product(context: ParselCrawlingContext) -> None:
        await batches.add(row(context.selector, context.request.loaded_url or context.request.url))

    wait_for_go()
    await crawler.run([START])
    await batches.close()


# the shop's dead links are errors with a traceback each
logging.basicConfig(level=logging.CRITICAL)
asyncio.run(main(sys.argv[1]))
