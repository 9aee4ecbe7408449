"""Shops whose robots.txt and sitemaps never end or are far larger than they look, crawled by a real
worker: its memory, the bytes that are taken from them, the requests, and the end of each crawl."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.support.making import rows
from tests.support.servers.forked import Process
from tests.support.shops.odd_shop import Answer, Misdeed, OddShop, Page, listing, product

ROBOTS_BYTES = 500_000_000
# The first page of each kind of work loads a part of the worker.
GROWTH_MAX_MB = 250
LISTINGS_MAX = 60
# What the sockets hold of a robots.txt, of which 512 kB are read.
SENT_MAX_BYTES = 20_000_000
sent: dict[str, int] = {}


def zeros() -> bytes:
    """Zeros that take 200 kB as gzip, and 200 MB in memory."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        for _ in range(20):
            file.write(bytes(10_000_000))
    return packed.getvalue()


def never_ending(name: str, header: bytes) -> Misdeed:
    lines = b"Disallow: /private\n" * 1000

    async def send(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n" + header + b"\r\n\r\n")
        sent[name] = 0
        while sent[name] < ROBOTS_BYTES:
            writer.write(lines)
            sent[name] += len(lines)
            await writer.drain()
            await asyncio.sleep(0)

    return send


def index(*targets: str) -> bytes:
    named = "".join(f"<sitemap><loc>{target}</loc></sitemap>" for target in targets)
    return f"<sitemapindex>{named}</sitemapindex>".encode()


def many_names() -> Answer:
    names = "".join(f"User-agent: a{n}\n" for n in range(8_000))
    rules = "".join(f"Disallow: /{n}\n" for n in range(2_000))
    return Answer(
        f"{names}{rules}\nUser-agent: *\nDisallow: /private\n".encode(), kind="text/plain"
    )


ROBOTS: dict[str, Callable[[], Page]] = {
    "endless": lambda: never_ending("endless", b"Connection: close"),
    "half-a-gigabyte": lambda: never_ending(
        "half-a-gigabyte", b"Content-Length: %d" % ROBOTS_BYTES
    ),
    "zeros": lambda: Answer(zeros(), headers=("Content-Encoding: gzip",)),
    "names": many_names,
    "wildcards": lambda: Answer(b"User-agent: *\n" + b"Disallow: /*a*b\n" * 30_000),
}
SITEMAPS: dict[str, Callable[[], Page]] = {
    "map-coded-zeros": lambda: Answer(gzip.compress(zeros()), headers=("Content-Encoding: gzip",)),
    "map-members": lambda: Answer(gzip.compress(b"") * 300_000),
    "map-index": lambda: index("/map.xml", *[f"/maps/{n}.xml" for n in range(5_000)]),
    "map-tree": lambda: Answer(
        gzip.compress(index(*["/a.xml"] * 50_001)[:-15] + b"<a/>" * 10_000_000, 1)
    ),
}
NAMES = [*ROBOTS, *SITEMAPS]


@pytest.fixture(scope="module")
def shop() -> Iterator[OddShop]:
    with OddShop(ports=len(NAMES)) as shop:
        for port, name in enumerate(NAMES):
            shop.serve("/p/1", product("1", "One").encode(), port)
            shop.serve("/", listing(["/p/1"]), port)
            if name in ROBOTS:
                shop.serve("/robots.txt", ROBOTS[name](), port)
            else:
                shop.serve("/map.xml", SITEMAPS[name](), port)
        # Each sitemap of the index names ten more.
        shop.otherwise = lambda target: (
            index(*[f"{target}/{n}" for n in range(10)]) if target.startswith("/maps/") else None
        )
        yield shop


def define(environment: Settings, shop: OddShop, name: str) -> None:
    port = NAMES.index(name)
    definition: dict[str, Any] = {
        "start": shop.url("/", port), "allow_private": True, "rate": "50/s", "revisit": "0",
        "limits": {"listings": LISTINGS_MAX, "attempts": 2},
        "listing": {"products": "a.p"},
        "product": {"id": {"css": "body::attr(data-id)"}, "fields": {"title": {"css": "h1", "required": True}}},
    }  # fmt: skip
    if name in SITEMAPS:
        definition["sitemap"] = {"urls": [shop.url("/map.xml", port)], "products": "/p/"}
    (environment.sites_dir / f"{name}.yaml").write_text(json.dumps(definition))


def peak_mb(worker: Process) -> float:
    """The largest that the worker's own process has been."""
    status = Path(f"/proc/{worker.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@pytest.mark.timeout(900)
def test_bombs(run: Commands, engine: sa.Engine, environment: Settings, shop: OddShop) -> None:
    run.coordinator()
    worker = run.worker("datacenter", "--concurrency=1")
    run.until_ready(worker)
    before_mb = peak_mb(worker)
    for name in NAMES:
        define(environment, shop, name)
        run.scraper("crawl", name)
    unfinished = (
        "SELECT s.name FROM crawls c JOIN sites s ON s.id = c.site_id WHERE finished_at IS NULL"
    )
    until(lambda: not rows(engine, unfinished), 120)
    assert peak_mb(worker) - before_mb < GROWTH_MAX_MB
    assert max(sent.values()) < SENT_MAX_BYTES
    ended = """
        SELECT s.name, c.status, c.products_new, c.note FROM crawls c JOIN sites s ON s.id = c.site_id"""
    crawls = {
        name: (status, products, note) for name, status, products, note in rows(engine, ended)
    }
    status, _, note = crawls.pop("wildcards")
    assert status == "failed" and "it has more than 5,000 wildcards" in str(note)
    assert {crawl[:2] for crawl in crawls.values()} == {("completed", 1)}
    # Each robots.txt was asked for once, and each sitemap twice at most.
    for port, name in enumerate(NAMES):
        asked = shop.asked(port)
        assert asked.count("/robots.txt") == 1, name
        assert asked.count("/map.xml") <= 2 and len(asked) < LISTINGS_MAX + 10, (name, asked)
