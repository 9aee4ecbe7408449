"""A few pages that never come right do not slow the others, and do not hold up the crawl's end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import redis
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.support.making import rows
from tests.support.shops.odd_shop import (
    Answer,
    OddShop,
    at_first,
    drip,
    hang,
    listing,
    product,
)

PAGES, READ_S = 300, 2.0
NEVER = {"busy": Answer(b"busy", 503), "silent": hang, "endless": drip}


def test_one_page_in_a_hundred_that_fails_costs_its_own_tries_alone(
    run: Commands, engine: sa.Engine, environment: Settings, valkey_client: redis.Redis
) -> None:
    """Each is tried as often as a page is, not as often as a host; the host keeps its pace."""
    run.env |= {"SCRAPER_READ_TIMEOUT_S": str(READ_S), "SCRAPER_PAGE_TIMEOUT_S": str(2 * READ_S)}
    with OddShop() as shop:
        hrefs = [f"/p/{number}" for number in range(PAGES)]
        for number, href in enumerate(hrefs):
            shop.serve(href, product(str(number), f"Thing {number}").encode())
        bad = {f"/never/{name}": page for name, page in NEVER.items()}
        for number, (href, page) in enumerate(bad.items()):
            shop.serve(href, page)
            hrefs.insert(PAGES * (number + 1) // len(bad), href)
        shop.serve("/", listing(hrefs))
        definition: dict[str, Any] = {
            "start": shop.url("/"), "allow_private": True, "rate": "50/s", "concurrency": 8, "revisit": "0",
            "listing": {"products": "a.p"},
            "product": {"id": {"css": "body::attr(data-id)"}, "fields": {"title": {"css": "h1", "required": True}}},
        }  # fmt: skip
        (environment.sites_dir / "shop.yaml").write_text(json.dumps(definition))
        run.coordinator()
        run.worker("datacenter", "--concurrency=1")
        run.scraper("crawl", "shop")
        until(lambda: rows(engine, "SELECT status FROM crawls") == [("completed",)], 120)
        asked = shop.asked()
        host = shop.url().removeprefix("http://")
    assert {href: asked.count(href) for href in bad} == {
        "/never/busy": 4,
        "/never/silent": 3,
        "/never/endless": 3,
    }
    assert len(rows(engine, "SELECT FROM products")) == PAGES
    # The pace was never cut.
    assert valkey_client.hget(f"scraper:host:{host}", "cut") is None


def test_a_page_much_slower_than_others_comes_and_one_that_never_answers_is_soon_given_up(
    run: Commands, engine: sa.Engine, environment: Settings
) -> None:
    """With the timeouts that users have, of which the first alone is longer than all this."""

    async def slow(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(2.5)
        writer.write(Answer(product("slow", "Slow").encode()).raw())
        await writer.drain()

    with OddShop() as shop:
        hrefs = [f"/p/{number}" for number in range(60)]
        for number, href in enumerate(hrefs):
            shop.serve(href, product(str(number), f"Thing {number}").encode())
        # At first it hangs: on a busy machine the first tries may wait for 2.5 s, too.
        shop.serve("/slow", at_first(hang, slow, times=2))
        silent = shop.serve("/silent", hang)
        # They are come upon once the host has given answers.
        shop.serve("/", listing(hrefs, more='<a class="next" href="/2">next</a>'))
        shop.serve("/2", listing(["/slow", "/silent"]))
        definition: dict[str, Any] = {
            "start": shop.url("/"), "allow_private": True, "rate": "50/s", "concurrency": 4, "revisit": "0",
            "listing": {"products": "a.p", "next": "a.next"},
            "product": {"id": {"css": "body::attr(data-id)"}, "fields": {"title": {"css": "h1", "required": True}}},
        }  # fmt: skip
        (environment.sites_dir / "shop.yaml").write_text(json.dumps(definition))
        run.coordinator()
        run.worker("datacenter", "--concurrency=1")
        run.scraper("crawl", "shop")
        until(lambda: rows(engine, "SELECT status FROM crawls") == [("completed",)], 60)
        asked = shop.asked()
        first, second, _ = (when for when, _, target in shop.requests if target == "/slow")
    # The first try had less than the whole timeout.
    assert second - first < environment.page_timeout_s
    assert rows(engine, "SELECT data->>'title' FROM products WHERE external_id = 'slow'") == [
        ("Slow",)
    ]
    assert asked.count("/slow") == asked.count("/silent") == 3
    assert rows(engine, "SELECT url, status FROM pages WHERE status <> 'ok'") == [(silent, "dead")]
