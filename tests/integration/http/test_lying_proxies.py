"""Proxies that answer 200 with pages that are not the shop's are found out by what the others bring;
shops whose own pages are odd put no proxy into quarantine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis
import sqlalchemy as sa
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.domain import ProxySignal
from scraper.proxies import health
from scraper.worker.observations import ALIKE_MOST
from tests.integration.conftest import Start
from tests.support.making import rows
from tests.support.servers.proxies import Field, TestProxy
from tests.support.shops.odd_shop import product

pytestmark = pytest.mark.slow

PRODUCTS = 400
SOLD_OUT = product("sold-out", "Sold out").encode()


def whys(valkey_url: str) -> dict[str, str]:
    """The reasons of the proxies in quarantine, by id."""
    with redis.Redis.from_url(valkey_url) as client:
        return {
            name: proxy.why
            for at_host in health.read_all_stats(client).values()
            for name, proxy in at_host.items()
            if proxy.strikes
        }


def titles(engine: sa.Engine) -> dict[Any, Any]:
    return dict(rows(engine, "SELECT external_id, data ->> 'title' FROM products"))  # type: ignore[arg-type]


def sound(numbers: range) -> dict[str, str]:
    return {str(n): f"Product /p/{n}" for n in numbers}


def pages_answer(field: Field, body_of: Callable[[str], bytes | None]) -> Counter[str]:
    """The shop gives these bodies to product pages, and its own where there is none. Returns how
    often each was asked for."""
    answer, asked = field._answer, Counter[str]()

    def instead(target: str, peer: str, headers: dict[str, str]) -> bytes:
        given = answer(target, peer, headers)
        if not target.startswith("/p/") or b"302" in given[:20]:
            return given
        asked[target] += 1
        body = body_of(target)
        if body is None:
            return given
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    field._answer = instead  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize("good", [1, 2])
def test_every_row_comes_however_proxies_lie(
    start: Start, engine: sa.Engine, valkey_url: str, good: int
) -> None:
    """One shows its own page for everything, the other captchas in words that no rule knows."""
    own, captcha = TestProxy(8, mode="liar"), TestProxy(9, mode="puzzle")
    with Field(
        *(TestProxy(n) for n in range(1, good + 1)), own, captcha, products=PRODUCTS
    ) as field:
        start(field, field.lines()).run(rounds=400)
        assert rows(engine, "SELECT status, suspect, dead, invalid FROM crawls") == [
            ("completed", False, 0, 0)
        ]
        assert titles(engine) == sound(range(PRODUCTS))
        reasons = whys(valkey_url)
        assert set(reasons.values()) == {ProxySignal.LACKING.value, ProxySignal.REPEATED.value}
        assert len(reasons) == 2, "no other proxy is blamed"
        assert len(own.asked) + len(captcha.asked) < 80
        table = CliRunner().invoke(main, ["proxies"], catch_exceptions=False).output
        assert ProxySignal.LACKING.value in table and "one page for all" in table


def test_one_that_lies_now_and_then_is_found_out(
    start: Start, engine: sa.Engine, valkey_url: str
) -> None:
    liar = TestProxy(9, mode="puzzle", lies=5)
    with Field(TestProxy(1), TestProxy(2), liar, products=PRODUCTS) as field:
        start(field, field.lines()).run(rounds=400)
        assert rows(engine, "SELECT status, dead, invalid FROM crawls") == [("completed", 0, 0)]
        assert titles(engine) == sound(range(PRODUCTS))
        assert list(whys(valkey_url).values()) == [ProxySignal.LACKING.value]


def test_pages_that_really_lack_what_is_required_are_nobodys_fault(
    start: Start, engine: sa.Engine, valkey_url: str
) -> None:
    """A third of the shop's pages: asked of two proxies, twice each."""
    with Field(*(TestProxy(n) for n in range(1, 5)), products=90) as field:
        lacking = {f"/p/{n}" for n in range(90) if n % 3 == 0}
        asked = pages_answer(
            field,
            lambda t: (
                f"<body data-id={t}><p>No name".encode() if t.partition("?")[0] in lacking else None
            ),
        )
        start(field, field.lines()).run()
        assert rows(engine, "SELECT status, dead, invalid FROM crawls") == [("completed", 0, 30)]
        assert len(titles(engine)) == 60 and whys(valkey_url) == {}
        assert max(asked.values()) <= 2 * 4 and sum(asked.values()) <= 60 + 30 * 5


def test_a_redesign_puts_no_proxy_into_quarantine(
    start: Start, engine: sa.Engine, valkey_url: str
) -> None:
    """No proxy gets a whole page: after a few, two proxies that say so are enough."""
    with Field(*(TestProxy(n) for n in range(1, 9)), products=60) as field:
        asked = pages_answer(field, lambda t: f"<body data-id={t}><p>No name".encode())
        start(field, field.lines()).run()
        assert rows(engine, "SELECT status, dead, invalid FROM crawls") == [("failed", 0, 60)]
        assert whys(valkey_url) == {} and sum(asked.values()) <= 60 * 5 + 40


@pytest.mark.parametrize("body", [SOLD_OUT, b"<p>Sold out, sorry"])
def test_a_shop_that_gives_one_body_for_many_pages_blames_no_proxy(
    start: Start, engine: sa.Engine, valkey_url: str, body: bytes
) -> None:
    with Field(*(TestProxy(n) for n in range(1, 5)), products=60) as field:
        alike = {f"/p/{n}" for n in range(60) if n % 4 == 0}
        pages_answer(field, lambda t: body if t in alike else None)
        start(field, field.lines()).run()
        lacking = 0 if body == SOLD_OUT else 15
        assert rows(engine, "SELECT status, dead, invalid FROM crawls") == [
            ("completed", 0, lacking)
        ]
        assert len(titles(engine)) == 45 + (body == SOLD_OUT) and whys(valkey_url) == {}


@pytest.mark.parametrize("id_", ["{url: '/p/([0-9]+)'}", "{css: 'body::attr(data-id)'}"])
def test_one_body_for_many_products_is_not_a_product(
    start: Start, engine: sa.Engine, id_: str
) -> None:
    """Without proxies, too: it is tried once more, stores nothing and is reported. One product at many
    addresses is one."""
    with Field(products=40) as field:
        definition = field.definition
        field.definition = lambda proxy, more="": (  # type: ignore[method-assign]
            definition(proxy, more)
            .replace("proxy: datacenter\n", "")
            .replace("{css: 'body::attr(data-id)'}", id_)
        )
        pages_answer(field, lambda t: SOLD_OUT if int(t[3:].partition("?")[0]) >= 20 else None)
        start(field, "").run()
        assert rows(engine, "SELECT status FROM crawls") == [("completed",)]
        errors = rows(
            engine, "SELECT error, count(*) FROM pages WHERE status = 'invalid' GROUP BY 1"
        )
        text = f"the same {len(SOLD_OUT)} bytes as other products' pages"
        assert errors == ([(text, 20 - ALIKE_MOST)] if "url" in id_ else [])
        assert len(titles(engine)) == 20 + (ALIKE_MOST if "url" in id_ else 1)


def test_pages_that_come_whole_the_second_time_blame_no_proxy(
    start: Start, engine: sa.Engine, valkey_url: str
) -> None:
    """The shop itself gives one page in three without its title at first, whichever proxy asks."""
    with Field(*(TestProxy(n) for n in range(1, 4)), products=150) as field:
        flaky = {f"/p/{n}" for n in range(0, 150, 3)}
        asked: Counter[str] = pages_answer(
            field,
            lambda t: (
                f"<body data-id={t}><p>No name".encode() if t in flaky and asked[t] == 1 else None
            ),
        )
        start(field, field.lines()).run()
        assert rows(engine, "SELECT status, dead, invalid FROM crawls") == [("completed", 0, 0)]
        assert titles(engine) == sound(range(150)) and whys(valkey_url) == {}
