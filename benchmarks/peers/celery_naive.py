"""A plain Celery queue: a task a page, prefork, one httpx.Client and one connection a process, an
upsert a page.

Celery's guide "Optimizing": a large prefetch multiplier for short tasks, no results, transient
messages; and what a single worker does not need is off (gossip, mingle, heartbeat). It never ends
by itself: the command that started it sees the last row.
"""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import urljoin

import httpx
import psycopg
from celery import Celery
from celery.signals import worker_process_init, worker_ready
from common import (
    DATABASE,
    PRODUCT_LINKS,
    REDIS_DB,
    REDIS_SOCKET,
    START,
    UPSERT,
    more_listings,
    row,
    wait_for_go,
)
from parsel import Selector

# more than the core has, so that it is busy while some wait
PROCESSES = 8

app = Celery("naive", broker=f"redis+socket://{REDIS_SOCKET}?virtual_host={REDIS_DB}")
app.conf.update(
    task_ignore_result=True,
    task_default_delivery_mode="transient",
    worker_prefetch_multiplier=64,
    worker_hijack_root_logger=False,
)
client: httpx.Client
connection: psycopg.Connection[Any]


@worker_process_init.connect
def connect(**_: object) -> None:
    global client, connection
    client = httpx.Client(follow_redirects=True)
    connection = psycopg.connect(DATABASE, autocommit=True)


@worker_ready.connect
def begin(**_: object) -> None:
    wait_for_go()
    listing.delay(START)


@app.task
def listing(url: str) -> None:
    page = Selector(client.get(url).text)
    if url == START:
        for more in more_listings(page):
            listing.delay(more)
    for link in page.css(PRODUCT_LINKS).getall():
        product.delay(urljoin(url, link))


@app.task
def product(url: str) -> None:
    response = client.get(url)
    if response.status_code == 200:
        connection.execute(UPSERT, row(Selector(response.text), str(response.url)))


if __name__ == "__main__":
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"]
    app.worker_main(
        ["worker", "--pool", "prefork", "--concurrency", str(PROCESSES), *quiet, *sys.argv[1:]]
    )
