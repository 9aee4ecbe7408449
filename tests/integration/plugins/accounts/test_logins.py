"""Crawls of a shop that shows prices to those who are logged in: a real worker, a real database, a
real shop."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.coordinator import plan
from scraper.frontier import sites
from scraper.plugins.accounts import pool as sessions
from scraper.plugins.accounts.policy import RULES, Rule, Trouble
from scraper.plugins.accounts.store import account_key, forget_account, read_status
from scraper.politeness.fleet_limiter import ALLOTMENT_TTL_S
from scraper.rules.budget import Budget
from scraper.settings import Settings
from scraper.sites import loader
from tests.support.broker import Broker
from tests.support.machine import everyday
from tests.support.making import rows
from tests.support.servers.hostile_server import self_signed
from tests.support.servers.proxies import Field, TestProxy
from tests.support.shops.login_shop import PASSWORD, SESSION, TOKEN, LoginShop
from tests.support.waiting import until

pytestmark = pytest.mark.slow

Start = Callable[..., Broker]


@pytest.fixture
def start(
    engine: sa.Engine, environment: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    """Opens a crawl of the shop, with a worker that has its accounts. The worker before has ended:
    it would hold the host's slots for some seconds more."""
    brokers: list[Broker] = []

    def begin(
        shop: LoginShop, definition: str | None = None, accounts: str | None = None, **env: str
    ) -> Broker:
        path = tmp_path / "accounts.yaml"
        path.write_text(accounts if accounts is not None else shop.accounts())
        path.chmod(0o600)
        monkeypatch.setenv("SCRAPER_ACCOUNTS", str(path))
        monkeypatch.setenv("SCRAPER_SITE_FUNCTIONS", "tests.support.shops.login_functions")
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        settings_module.load.cache_clear()
        with engine.begin() as connection:
            sites.store_definitions(
                connection, [loader.load_text(definition or shop.definition(), "shop.yaml")]
            )
        while brokers:
            brokers.pop().close()
        broker = Broker(engine, settings_module.load(), lambda message: [message])
        brokers.append(broker)
        broker.send(plan.open_now(engine, "shop").messages)
        return broker

    yield begin
    for broker in brokers:
        broker.close()


@pytest.fixture
def client(valkey_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(valkey_url) as client:
        yield client


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rests after failed logins are over soon; how many there may be stays."""
    for kind, rule in RULES.items():
        monkeypatch.setitem(RULES, kind, Rule((0.2,), rule.tries))
    monkeypatch.setattr(sessions, "AGAIN_S", 0.05)
    monkeypatch.setattr(sessions, "ASKED_EVERY_S", 0.3)


def prices(engine: sa.Engine) -> dict[Any, Any]:
    return dict(rows(engine, "SELECT external_id, data ->> 'price' FROM products"))


def all_prices(shop: LoginShop) -> dict[str, str]:
    return {str(n): f"{n}.50" for n in range(shop.products)}


def ended(engine: sa.Engine) -> tuple[object, ...]:
    return rows(engine, "SELECT status, dead, invalid FROM crawls ORDER BY id DESC LIMIT 1")[0]


def outcomes(engine: sa.Engine) -> dict[Any, Any]:
    return dict(rows(engine, "SELECT last_outcome, count(*) FROM pages GROUP BY 1"))


def rounds(broker: Broker, seconds: float, true: Callable[[], bool]) -> None:
    """Goes on with the crawl, some rounds at a time, until it is so."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, outcomes(broker.engine)
        while broker.waiting:
            broker.handle(broker.waiting.pop(0))
        with broker.engine.begin() as connection:
            connection.execute(sa.text("UPDATE pages SET not_before = now() WHERE status = 'due'"))
        broker.tick()
        if not broker.waiting:
            time.sleep(0.02)


def over(engine: sa.Engine) -> bool:
    return not rows(engine, "SELECT FROM crawls WHERE status IN ('planned', 'running')")


# --- one login an expiry
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", ["page", "redirect", "401"])
def test_sessions_that_run_out_are_one_login_each(
    start: Start, engine: sa.Engine, style: str
) -> None:
    """However logged-out pages look: hundreds of pages, one login an expiry, and no page pays for
    it."""
    with LoginShop(products=120, lasts=20, style=style) as shop:
        start(shop).run()
        assert prices(engine) == all_prices(shop)
        assert ended(engine) == ("completed", 0, 0)
        assert shop.expired >= 4 and len(shop.logins) == shop.expired + 1 and not shop.forged
        assert rows(engine, "SELECT max(attempts), max(host_attempts) FROM pages") == [(1, 0)]
        assert outcomes(engine) == {"fetched": 121}


def test_a_token_goes_along_and_is_asked_for_again_once(
    start: Start, engine: sa.Engine, client: redis.Redis
) -> None:
    with LoginShop(products=60, lasts=12) as shop:
        way = (
            f"  token: {{url: '{shop.url}/api/token', body: {{user: '{{username}}', pass: '{{password}}'}},\n"
            "    path: data.token, expires_path: data.expires_in}\n"
        )
        start(
            shop, shop.definition(way).replace(f"start: {shop.url}/", f"start: {shop.url}/api/list")
        ).run()
        assert prices(engine) == all_prices(shop)
        assert len(shop.logins) == shop.expired + 1 and shop.expired >= 2
        standing = read_status(client, "shop", "1")
        assert (
            standing.expires_in_s is not None
            and 3000 < standing.expires_in_s <= 3600
            and standing.proven
        )


def test_a_token_of_the_secrets_file_asks_for_nothing(start: Start, engine: sa.Engine) -> None:
    with LoginShop(products=20) as shop:
        shop.sessions["fixed"] = session = type(shop).session_of("ann")
        definition = shop.definition("  token: {header: 'Authorization: Bearer {token}'}\n")
        definition = definition.replace(f"start: {shop.url}/", f"start: {shop.url}/api/list")
        start(shop, definition, "shop: {token: fixed}\n").run()
        assert prices(engine) == all_prices(shop) and session.served == 21 and shop.logins == []


@pytest.mark.parametrize(("name", "first"), [("by_form", "/"), ("by_header", "/api/list")])
def test_a_function_logs_in(start: Start, engine: sa.Engine, name: str, first: str) -> None:
    with LoginShop(products=30, lasts=20) as shop:
        accounts = f"shop: {{username: ann@shop.example, password: {PASSWORD}, where: '{shop.url}/login'}}\n"
        way = f"  function: tests.support.shops.login_functions:{name}\n  logged_out: {{css: 'form#login'}}\n"
        definition = shop.definition(way).replace(
            f"start: {shop.url}/", f"start: {shop.url}{first}"
        )
        start(shop, definition, accounts).run()
        assert prices(engine) == all_prices(shop)
        assert len(shop.logins) == shop.expired + 1 == 2


def test_two_accounts_are_used_each_with_its_own_session(
    start: Start, engine: sa.Engine, client: redis.Redis
) -> None:
    with LoginShop(products=60) as shop:
        users = ("ann@shop.example", "bob@shop.example")
        start(shop, shop.definition(more="user_agent: browser\n"), shop.accounts(*users)).run()
        assert prices(engine) == all_prices(shop)
        assert sorted(user for _, user in shop.logins) == sorted(users)
        served = {one.user: one.served for one in shop.sessions.values()}
        assert min(served.values()) >= 20
        assert all(len(one.agents) == 1 for one in shop.sessions.values()), (
            "an account is one browser"
        )
        assert {read_status(client, "shop", name).logins for name in ("1", "2")} == {1}


def test_an_account_that_cannot_log_in_leaves_the_work_to_the_other(
    start: Start, engine: sa.Engine, quick: None
) -> None:
    with LoginShop(products=40) as shop:
        start(shop, accounts=shop.accounts("ann@shop.example", "nobody@shop.example")).run()
        assert prices(engine) == all_prices(shop) and ended(engine) == ("completed", 0, 0)
        assert len(shop.refused) <= 2


def test_the_next_worker_goes_on_with_the_login_and_the_cookies_of_the_last(
    start: Start, engine: sa.Engine, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login outlives its process; what the site set on the way was written, at its end at the
    latest."""
    monkeypatch.setattr(sessions, "SYNC_EVERY_S", 3600.0)
    with LoginShop(products=30) as shop:
        first = start(shop)
        first.run()
        before = read_status(client, "shop", "1")
        first.close()
        first.worker.close = lambda: None  # type: ignore[method-assign]
        after = read_status(client, "shop", "1")
        assert (
            after.generation == before.generation
            and after.revision > 0
            and after.sealed != before.sealed
        )
        start(shop).run()
        assert len(shop.logins) == 1 and ended(engine) == ("completed", 0, 0)
        (session,) = shop.sessions.values()
        assert session.served == 1 + 2 * 31


def test_redis_may_lose_its_memory_and_no_login_is_lost(
    start: Start, engine: sa.Engine, client: redis.Redis
) -> None:
    with LoginShop(products=150) as shop:
        broker = start(shop)
        rounds(broker, 30, lambda: len(prices(engine)) > 0)
        client.flushdb()
        until(
            lambda: read_status(client, "shop", "1").generation,
            "the worker writes back what it has",
            timeout_s=15,
        )
        broker.run()
        assert prices(engine) == all_prices(shop) and len(shop.logins) == 1


@pytest.mark.slow
def test_a_worker_that_ends_during_a_login_leaves_the_host_to_others_at_once(
    start: Start, engine: sa.Engine
) -> None:
    with LoginShop(products=5) as shop:
        shop.hangs = True
        definition = shop.definition().replace("concurrency: 8", "concurrency: 1")
        broker = start(shop, definition)
        while broker.waiting[0].task != "fetch_listings":
            broker.handle(broker.waiting.pop(0))
        working = Thread(target=broker.handle, args=[broker.waiting[0]])
        working.start()
        until(lambda: "GET /login" in shop.asked, timeout_s=60)
        broker.worker.stop()
        working.join()
        other = start(shop, definition).worker

        async def acquire() -> float:
            limiter = other.services.limiters.for_host(f"127.0.0.1:{shop.port}")
            limiter.set_budget(1, Budget(concurrency=1))
            async with limiter.permit(began + 60):
                return time.monotonic() - began

        began = time.monotonic()
        waited_s = asyncio.run_coroutine_threadsafe(acquire(), other._loop).result(60)
        assert waited_s < ALLOTMENT_TTL_S / 3, "the dead worker's allotment is not waited for"


def test_a_forgotten_login_is_not_written_back(
    start: Start, engine: sa.Engine, client: redis.Redis
) -> None:
    with LoginShop(products=20) as shop:
        broker = start(shop)
        broker.run()
        assert forget_account(client, "shop", "1")
        broker.send(plan.open_now(engine, "shop").messages)
        sessions = broker.worker.services.parts["accounts"].sessions
        until(
            lambda: all(account.session is None for account in sessions._accounts.values()),
            timeout_s=10,
        )
        broker.run()
        assert len(shop.logins) == 2 and read_status(client, "shop", "1").logins == 1


def test_a_login_sealed_with_another_key_counts_as_none(
    start: Start, engine: sa.Engine, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    with LoginShop(products=10) as shop:
        first = start(shop, SCRAPER_SECRET_KEY="k" * 40)
        first.run()
        start(shop, SCRAPER_SECRET_KEY="l" * 40).run()
        assert ended(engine) == ("completed", 0, 0) and len(shop.logins) == 2
        start(shop, SCRAPER_SECRET_KEY="m" * 40 + "," + "l" * 40).run()
        assert len(shop.logins) == 2, "the second key opens what it has sealed"


def test_a_forged_login_that_is_ahead_of_the_clock_keeps_no_worker_from_logging_in(
    start: Start, engine: sa.Engine, client: redis.Redis
) -> None:
    """Each login of the shop that follows has a lower generation."""
    ahead = str(round((time.time() + 1800) * 1e6))
    client.hset(account_key("shop", "1"), mapping={"generation": ahead, "sealed": "forged"})
    with LoginShop(products=100, lasts=20) as shop:
        broker = start(shop)
        rounds(broker, 60, lambda: over(engine))
        assert prices(engine) == all_prices(shop)
        assert shop.expired >= 3 and len(shop.logins) == shop.expired + 1


# --- accounts that do not get in
# -------------------------------------------------------------------------------------


def test_a_wrong_password_is_tried_twice_and_the_crawl_says_so(
    start: Start, engine: sa.Engine, client: redis.Redis, quick: None
) -> None:
    with LoginShop(products=10) as shop:
        wrong = "shop: {name: ann, username: ann@shop.example, password: wr0ng-pa55word}\n"
        broker = start(shop, accounts=wrong)
        rounds(broker, 30, lambda: over(engine))
        assert len(shop.refused) == 2 == RULES[Trouble.REJECTED].tries and shop.logins == []
        assert ended(engine) == ("failed", 1, 0)
        ((outcome, status, error, attempts),) = rows(
            engine, "SELECT last_outcome, status, error, attempts FROM pages"
        )
        assert (outcome, status, attempts) == ("login_failed", "dead", 0)
        assert "account ann: rejected" in str(error) and "wr0ng" not in str(error)
        assert "account ann: rejected" in str(rows(engine, "SELECT note FROM crawls")[0][0])
        assert read_status(client, "shop", "ann").quarantined
        broker.send(plan.open_now(engine, "shop").messages)
        broker.run()
        assert len(shop.refused) == 2, "nobody tries while it is in quarantine"


def test_a_new_password_ends_the_quarantine_at_once(
    start: Start, engine: sa.Engine, client: redis.Redis, quick: None
) -> None:
    with LoginShop(products=10) as shop:
        rounds(
            start(shop, accounts="shop: {username: ann@shop.example, password: wr0ng-pa55word}\n"),
            30,
            lambda: over(engine),
        )
        assert read_status(client, "shop", "1").quarantined
        start(shop).run()
        assert (
            prices(engine) == all_prices(shop) and not read_status(client, "shop", "1").quarantined
        )


def test_a_host_that_is_down_is_waited_for_and_costs_no_quarantine(
    start: Start, engine: sa.Engine, client: redis.Redis, quick: None
) -> None:
    with LoginShop(products=10) as shop:
        shop.broken = True
        broker = start(shop)
        rounds(broker, 30, lambda: read_status(client, "shop", "1").failures >= 3)
        standing = read_status(client, "shop", "1")
        assert standing.kind == "unavailable" and not standing.quarantined and not shop.refused
        assert rows(engine, "SELECT attempts, host_attempts FROM pages") == [(0, 0)]
        (error,) = rows(engine, "SELECT error FROM pages")[0]
        assert "the login page was 503" in str(error)
        shop.broken = False
        rounds(broker, 30, lambda: over(engine))
        assert prices(engine) == all_prices(shop) and ended(engine) == ("completed", 0, 0)


WAYS = (
    ("  form: {{url: '{url}/robots.txt', fields: {{a: '{{username}}'}}}}\n", "no form"),
    ("  form: {{url: '{url}/login', fields: {{a: '{{pin}}'}}}}\n", "the account has no 'pin'"),
    (
        "  form: {{url: '{url}/login', selector: 'form#no', fields: {{a: '{{username}}'}}}}\n",
        "no form#no",
    ),
    (
        "  token: {{url: '{url}/nowhere/1', body: {{a: '{{username}}'}}}}\n",
        "the answer is not JSON",
    ),
    (
        "  function: tests.support.shops.login_functions:broken\n",
        "RuntimeError: what about ***?",
    ),
    ("  function: tests.support.shops.login_functions:missing\n", "has no function 'missing'"),
)


@pytest.mark.parametrize(
    ("way", "why"),
    everyday(WAYS, WAYS[1], WAYS[3], WAYS[4]),
)
def test_a_definition_that_does_not_fit_is_refused(
    start: Start, engine: sa.Engine, client: redis.Redis, quick: None, way: str, why: str
) -> None:
    with LoginShop(products=2) as shop:
        rounds(start(shop, shop.definition(way.format(url=shop.url))), 30, lambda: over(engine))
        assert ended(engine) == ("failed", 1, 0) and shop.logins == []
        ((error,),) = rows(engine, "SELECT error FROM pages")
        assert why in str(error) and PASSWORD not in str(error)
        assert read_status(client, "shop", "1").failures <= 3


def test_without_a_file_or_an_account_pages_wait_and_say_so(
    start: Start, engine: sa.Engine
) -> None:
    with LoginShop(products=2) as shop:
        broker = start(shop, accounts="other: {token: abcdef}\n")
        rounds(broker, 20, lambda: "no_login" in outcomes(engine))
        assert rows(engine, "SELECT error, attempts FROM pages") == [
            ("'shop' has no account in the file of this worker", 0)
        ]
        assert [one for one in shop.asked if "robots" not in one] == [], "never without"


# --- pages that look logged out whatever one does
# --------------------------------------------------------------------


def test_pages_that_are_never_there_pay_and_cause_no_storm(
    start: Start, engine: sa.Engine, client: redis.Redis, quick: None
) -> None:
    """Two of sixty look logged out to everybody: these die; the login stays, and so do the
    others."""
    with LoginShop(products=60) as shop:
        shop.always_out = {"/p/7", "/p/13"}
        rounds(start(shop), 60, lambda: over(engine))
        assert prices(engine) == {k: v for k, v in all_prices(shop).items() if k not in ("7", "13")}
        assert ended(engine) == ("completed", 2, 0)
        dead = rows(engine, "SELECT last_outcome, attempts FROM pages WHERE status = 'dead'")
        assert dead == [("logged_out", 4)] * 2
        assert len(shop.logins) <= 5 and not read_status(client, "shop", "1").quarantined


def test_a_page_that_is_out_while_others_are_well_throws_no_login_away(
    start: Start, engine: sa.Engine
) -> None:
    with LoginShop(products=400) as shop:
        shop.always_out = {"/p/3"}
        broker = start(shop)
        rounds(broker, 60, lambda: len(prices(engine)) > 250)
        assert len(shop.logins) == 1


def test_a_page_that_no_login_opens_costs_a_few(
    start: Start, engine: sa.Engine, client: redis.Redis, quick: None
) -> None:
    """The marker is on every page, say, and there is but one to begin with: no account is to
    blame for that."""
    with LoginShop(products=60) as shop:
        rounds(
            start(shop, shop.definition().replace("{css: 'form#login'}", "logout")),
            30,
            lambda: over(engine),
        )
        assert len(shop.logins) <= 5 and ended(engine) == ("failed", 1, 0)
        assert "looks logged out (text 'logout')" in str(
            rows(engine, "SELECT note FROM crawls")[0][0]
        )
        assert not read_status(client, "shop", "1").quarantined


def test_a_login_that_opens_nothing_is_useless_and_not_tried_for_each_page(
    start: Start, engine: sa.Engine, client: redis.Redis, quick: None
) -> None:
    with LoginShop(products=60) as shop:
        shop.always_out = {f"/p/{n}" for n in range(60)}
        rounds(start(shop), 60, lambda: over(engine))
        assert len(shop.logins) <= 6 and ended(engine) == ("failed", 60, 0)
        standing = read_status(client, "shop", "1")
        assert standing.quarantined and standing.kind == "useless"
        assert "useless" in str(
            rows(engine, "SELECT error FROM pages WHERE last_outcome = 'login_failed'")[0][0]
        )


def test_at_most_one_login_in_a_while(
    start: Start, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that end after five pages each: `every` bounds what that may come to. How long a
    login is on its way is the machine's affair."""
    with LoginShop(products=200, lasts=5) as shop:
        began = time.monotonic()
        broker = start(shop, shop.definition(every="1s"))
        rounds(broker, 120, lambda: len(shop.logins) >= 4)
        assert all(at - began >= 0.99 * number for number, (at, _) in enumerate(shop.logins))


# --- secrets
# ---------------------------------------------------------------------------------------------------------


def test_nothing_secret_is_in_the_database_in_redis_or_in_the_log(
    start: Start,
    engine: sa.Engine,
    client: redis.Redis,
    capfd: pytest.CaptureFixture[str],
    quick: None,
) -> None:
    with LoginShop(products=30, lasts=10) as shop:
        shop.always_out = {"/p/3"}
        rounds(
            start(shop, accounts=shop.accounts("ann@shop.example", "bob@shop.example")),
            60,
            lambda: over(engine),
        )
        tables = rows(engine, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        kept = "".join(
            str(row)
            for (table,) in tables
            for row in rows(engine, f"SELECT t::text FROM {table} t")
        )
        inside = b"".join(key + (client.dump(key) or b"") for key in client.scan_iter())
        assert account_key("shop", "1").encode() in inside
        for secret in (PASSWORD, SESSION, TOKEN, "ann@shop.example"):
            assert (
                secret not in kept
                and secret.encode() not in inside
                and secret not in "".join(capfd.readouterr())
            )


def test_a_redirect_to_another_host_takes_nothing_along(start: Start, engine: sa.Engine) -> None:
    """Neither off the site nor to a further host of the site: cookies and headers stay where they belong."""
    with LoginShop(products=6) as shop:
        shop.elsewhere = {"/p/2", "/p/4"}
        host = shop.foreign_url.removeprefix("http://")
        start(shop, shop.definition(more=f"hosts: ['{host}']\n")).run()
        assert len(shop.foreign) >= 2
        heads = b"\r\n".join(shop.foreign).lower()
        assert (
            b"cookie:" not in heads
            and b"authorization" not in heads
            and SESSION.encode() not in heads
        )


def test_what_is_posted_is_not_sent_on(start: Start, engine: sa.Engine, quick: None) -> None:
    with LoginShop(products=2) as shop:
        host = shop.foreign_url.removeprefix("http://")
        shop.login_goes_to = f"{shop.foreign_url}/steal"
        rounds(start(shop, shop.definition(more=f"hosts: ['{host}']\n")), 30, lambda: over(engine))
        assert shop.foreign == [] or all(b"POST" not in head for head in shop.foreign)
        ((error,),) = rows(engine, "SELECT error FROM pages")
        assert "would send what was posted on" in str(error)


@pytest.mark.parametrize("more", ["", "impersonate: chrome\n", "http2: true\n"])
def test_over_tls_whichever_browser_is_imitated(
    start: Start, engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """libcurl posts as well, and its handles go on to get pages; an expiry in between."""
    tls = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    with LoginShop(products=30, lasts=20, tls=tls) as shop:
        start(shop, shop.definition(more=more)).run()
        assert (
            prices(engine) == all_prices(shop)
            and len(shop.logins) == shop.expired + 1 == 2
            and not shop.forged
        )


# --- proxies
# ---------------------------------------------------------------------------------------------------------


def test_an_account_stays_with_one_proxy_its_login_included(
    start: Start, engine: sa.Engine, tmp_path: Path, client: redis.Redis
) -> None:
    proxies = [TestProxy(number, "socks5") for number in range(1, 6)]
    with LoginShop(products=60) as shop, Field(*proxies) as field:
        path = tmp_path / "proxies.txt"
        path.write_text(field.lines())
        path.chmod(0o600)
        users = ("ann@shop.example", "bob@shop.example")
        definition = shop.definition(more="proxy: datacenter\nuser_agent: browser\n")
        start(shop, definition, shop.accounts(*users), PROXY_LIST=str(path)).run()
        assert prices(engine) == all_prices(shop)
        by_user: dict[str, set[str]] = {}
        for session in shop.sessions.values():
            by_user.setdefault(session.user, set()).update(session.peers)
        assert all(len(peers) == 1 for peers in by_user.values()) and "127.0.0.1" not in Counter(
            shop.peers
        )
        assert len(shop.logins) == 2
