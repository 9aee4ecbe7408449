"""Scrapy, one process. Its documentation's page "Broad Crawls": much concurrency, log level INFO,
no cookies, no retries, a download timeout of 15 s; the asyncio reactor is its default.

Redirects stay on, since the shop has some. Rows go to PostgreSQL by an item pipeline that writes
100 at a time. `--aiohttp` takes Scrapy's download handler over aiohttp, which its documentation
calls experimental. Not uvloop, for which there is a setting but no advice: it made no difference
here.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from common import CONCURRENCY, PRODUCT_LINKS, START, Batches, more_listings, row, wait_for_go
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import TextResponse

SETTINGS: dict[str, Any] = {
    "CONCURRENT_REQUESTS": CONCURRENCY,
    "CONCURRENT_REQUESTS_PER_DOMAIN": CONCURRENCY,
    "LOG_LEVEL": "INFO",
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 15,
    "DOWNLOAD_DELAY": 0,
    "TELNETCONSOLE_ENABLED": False,
    "ITEM_PIPELINES": {"scrapy_spider.PostgresPipeline": 300},
}
AIOHTTP = "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"


class PostgresPipeline:
    def __init__(self) -> None:
        self.batches = Batches()

    async def open_spider(self) -> None:
        await self.batches.open()

    async def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        await self.batches.add(item["row"])
        return item

    async def close_spider(self) -> None:
        await self.batches.close()


class ShopSpider(scrapy.Spider):
    name = "shop"

    async def start(self) -> AsyncIterator[scrapy.Request]:
        wait_for_go()
        yield scrapy.Request(START, self.parse_first)

    def parse_first(self, response: TextResponse) -> Iterator[scrapy.Request]:
        for listing in more_listings(response):
            yield scrapy.Request(listing, self.parse_listing)
        yield from self.parse_listing(response)

    def parse_listing(self, response: TextResponse) -> Iterator[scrapy.Request]:
        for link in response.css(PRODUCT_LINKS).getall():
            yield response.follow(link, self.parse_product)

    def parse_product(self, response: TextResponse) -> Iterator[dict[str, Any]]:
        yield {"row": row(response, response.url)}


def run(settings: dict[str, Any]) -> None:
    process = AsyncCrawlerProcess(settings)
    process.crawl(ShopSpider)
    process.start()


if __name__ == "__main__":
    handlers = {"DOWNLOAD_HANDLERS": {"http": AIOHTTP}} if "--aiohttp" in sys.argv else {}
    run(SETTINGS | handlers)
