"""A script as one writes it by hand: aiohttp, parsel (or selectolax, with that word), and rows in
batches. The floor: what the work itself costs in Python.

No retries, no dedup, no queue that outlives the process, no limits on what a page may be. aiohttp's
documentation: one session for all requests, the connector's limit raised to the concurrency;
`limit_per_host` is unlimited by default. No uvloop: it made no difference here.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urljoin

import aiohttp
from common import CONCURRENCY, START, Batches, more_listings, product_links, row, wait_for_go
from parsel import Selector

SELECTOLAX = "selectolax" in sys.argv
if SELECTOLAX:
    from selectolax.lexbor import LexborHTMLParser


async def main() -> None:
    batches = Batches()
    await batches.open()
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def crawl(session: aiohttp.ClientSession, url: str) -> None:
        async with session.get(url) as response:
            if response.status != 200:
                return
            if SELECTOLAX:
                page = LexborHTMLParser(await response.read())
            else:
                page = Selector(await response.text())
            found = str(response.url)
        if "/p/" in found:
            await batches.add(row(page, found))
            return
        if url == START:
            for listing in more_listings(page):
                queue.put_nowait(listing)
        for link in product_links(page):
            queue.put_nowait(urljoin(url, link))

    async def work(session: aiohttp.ClientSession) -> None:
        while True:
            url = await queue.get()
            try:
                await crawl(session, url)
            except (aiohttp.ClientError, TimeoutError) as error:
                print(url, error, file=sys.stderr)
            finally:
                queue.task_done()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session:
        wait_for_go()
        queue.put_nowait(START)
        workers = [asyncio.create_task(work(session)) for _ in range(CONCURRENCY)]
        await queue.join()
        for worker in workers:
            worker.cancel()
    await batches.close()


asyncio.run(main())
