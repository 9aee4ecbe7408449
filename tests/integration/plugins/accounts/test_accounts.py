"""Who pays for a try, as it is written in the database, and what is kept of an answer that could
not be used."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from uuid import UUID

import pytest
import sqlalchemy as sa

from scraper.coordinator.dispatch import dispatch
from scraper.domain import Blame, Outcome, Status, Verdict
from scraper.frontier import crawls
from scraper.http.request import headers_dict
from scraper.results.transaction import PageResult
from scraper.rules.circuit_breaker import HostDown
from scraper.rules.verdict import HOST_PATIENCE, RetryPolicy, judge_outcome
from scraper.settings import Settings
from scraper.worker.process import Worker
from scraper.worker.response_judge import HEAD_CHARS, HEAD_FIELDS, bound_headers
from tests.support.making import (
    OK,
    a_site,
    add,
    claimed,
    lease_all,
    new_page,
    open_crawl,
    rows,
    settled,
    store,
    urls,
)
from tests.support.shops.odd_shop import Answer, OddShop, Page, at_first, product

# which never comes from a worker
OUTCOMES = [o for o in Outcome if o is not Outcome.FRESH]
WAITS = [
    o for o in Outcome if o.blame is Blame.HOST and o not in (Outcome.THROTTLED, Outcome.HOST_DOWN)
]


@pytest.fixture
def crawl(engine: sa.Engine) -> tuple[int, int]:
    return open_crawl(engine, a_site(rate="unlimited", revisit="0s"))


def tried(engine: sa.Engine, crawl: tuple[int, int], outcome: Outcome, verdict: Verdict) -> None:
    """A worker tries the one page that is due."""
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET not_before = now()"))
    (batch,) = lease_all(engine, "shop.example")
    lease = claimed(engine, batch)
    assert lease is not None
    (page,) = lease.pages
    store(engine, crawl, [PageResult(page.id, crawl[1], batch.id, outcome, verdict)])


def accounts(engine: sa.Engine) -> tuple[object, ...]:
    return rows(engine, "SELECT attempts, host_attempts FROM pages")[0]


# --- accounts
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_each_outcome_is_charged_to_its_account_alone(
    engine: sa.Engine, crawl: tuple[int, int], outcome: Outcome
) -> None:
    """Invariant 8: what the host did is not on the page's account."""
    add(engine, [new_page(crawl, urls(1)[0])])
    tried(engine, crawl, outcome, judge_outcome(outcome, 0, RetryPolicy(), random.Random(1)))
    tries = 1 if outcome.tried else 0
    assert accounts(engine) == ((0, tries) if outcome.blame is Blame.HOST else (tries, 0))
    assert rows(engine, "SELECT fetches FROM crawls") == [(tries,)], (
        "what was not tried is no fetch"
    )


def test_a_page_whose_host_is_hopeless_is_dead_untried(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    tried(
        engine,
        crawl,
        Outcome.HOST_DOWN,
        judge_outcome(Outcome.HOST_DOWN, 0, RetryPolicy(), random.Random(1)),
    )
    assert rows(engine, "SELECT status, last_outcome, attempts, host_attempts FROM pages") == [
        ("dead", "host_down", 0, 0)
    ]
    assert rows(engine, "SELECT fetches, retries, dead, product_done FROM crawls") == [(0, 0, 1, 1)]
    assert rows(engine, "SELECT FROM leases") == []


@pytest.mark.parametrize("outcome", WAITS)
def test_while_the_host_is_down_neither_account_is_charged(
    engine: sa.Engine, crawl: tuple[int, int], outcome: Outcome
) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    for _ in range(20):
        down = HostDown(4.0)
        tried(
            engine,
            crawl,
            outcome,
            judge_outcome(outcome, 0, RetryPolicy(), random.Random(1), down=down),
        )
    assert accounts(engine) == (0, 0)
    assert rows(engine, "SELECT status, not_before > now() + interval '3 seconds' FROM pages") == [
        ("due", True)
    ]
    assert rows(engine, "SELECT fetches, retries FROM crawls") == [(20, 20)]


@pytest.mark.parametrize("outcome", WAITS)
def test_when_it_is_down_for_longer_its_account_alone_is_charged(
    engine: sa.Engine, crawl: tuple[int, int], outcome: Outcome
) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    limit = RetryPolicy().attempts_max * (1 if outcome is Outcome.BLOCKED else HOST_PATIENCE)
    for number in range(limit):
        assert rows(engine, "SELECT status FROM pages") == [("due",)]
        down = HostDown(4.0, charged=True)
        tried(
            engine,
            crawl,
            outcome,
            judge_outcome(outcome, number, RetryPolicy(), random.Random(1), down=down),
        )
    assert accounts(engine) == (0, limit)
    assert rows(engine, "SELECT status, last_outcome FROM pages") == [("dead", outcome)]


def test_the_accounts_do_not_add_up(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    """A page that has used up one of them but for a try still has all of the other."""
    add(engine, [new_page(crawl, urls(1)[0])])
    policy, rng, ends = RetryPolicy(), random.Random(1), []
    for outcome in [Outcome.CRASHED, Outcome.TIMEOUT] * 20:
        (batch,) = lease_all(engine, "shop.example")
        lease = claimed(engine, batch)
        assert lease is not None
        (page,) = lease.pages
        assert page.attempts_of(outcome.blame) == accounts(engine)[outcome is Outcome.TIMEOUT]
        verdict = judge_outcome(outcome, page.attempts_of(outcome.blame), policy, rng)
        store(engine, crawl, [PageResult(page.id, crawl[1], batch.id, outcome, verdict)])
        ends.append(verdict.status)
        if verdict.status.final:
            break
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE pages SET not_before = now()"))
    assert ends[-1] is Status.DEAD
    assert accounts(engine) == (policy.attempts_max, policy.attempts_max - 1)
    assert policy.attempts_max - 1 < HOST_PATIENCE * policy.attempts_max


def test_the_next_crawl_opens_new_accounts(engine: sa.Engine, crawl: tuple[int, int]) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    for outcome in (Outcome.TIMEOUT, Outcome.CRASHED, Outcome.THROTTLED):
        tried(engine, crawl, outcome, Verdict(Status.DUE, 0.0, charged=True))
    head = {"server": "nginx"}
    (batch,) = lease_all(engine, "shop.example")
    lease = claimed(engine, batch)
    assert lease is not None
    dead = Verdict(Status.DEAD, 0.0, charged=True)
    last = PageResult(
        lease.pages[0].id, crawl[1], batch.id, Outcome.REFUSED, dead, 403, "no", "<h1>no", head
    )
    store(engine, crawl, [last])
    query = "SELECT attempts, host_attempts, error, excerpt, response_head FROM pages"
    assert rows(engine, query) == [(2, 2, "no", "<h1>no", head)]
    with engine.begin() as connection:
        crawls.stop_crawl(connection, crawl[1], "test")
    second = open_crawl(engine, a_site(rate="unlimited", revisit="0s"))
    add(engine, [new_page(second, urls(1)[0])])
    assert rows(engine, query) == [(0, 0, None, None, None)]


def test_a_good_answer_leaves_nothing_of_a_bad_one(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    for verdict, head in (
        (Verdict(Status.DUE, 0.0, charged=True), {"server": "nginx"}),
        (OK, None),
    ):
        (batch,) = lease_all(engine, "shop.example")
        lease = claimed(engine, batch)
        assert lease is not None
        one = settled(lease.pages[0].id, crawl, batch.id, verdict)
        store(engine, crawl, [replace(one, error="x", excerpt="y", head=head)])
        assert rows(engine, "SELECT response_head FROM pages") == [(head,)]


LAST_TRY = "SELECT last_outcome, http_status, error, excerpt, response_head FROM pages"


def test_a_deferral_leaves_what_is_known_of_the_last_real_try(
    engine: sa.Engine, crawl: tuple[int, int]
) -> None:
    add(engine, [new_page(crawl, urls(1)[0])])
    back, again = Verdict(Status.DUE, 0.0, charged=False), Verdict(Status.DUE, 0.0, charged=True)
    head = {"server": "nginx"}
    nothing = (None, None, None, None)
    for outcome, verdict, details, known in [
        (Outcome.DEFERRED, back, nothing, ("deferred", *nothing)),
        (
            Outcome.SERVER_ERROR,
            again,
            (500, "it failed", "<h1>", head),
            ("server_error", 500, "it failed", "<h1>", head),
        ),
        (Outcome.DEFERRED, back, nothing, ("server_error", 500, "it failed", "<h1>", head)),
        (
            Outcome.DEFERRED,
            back,
            (200, "x", "y", {"z": "z"}),
            ("server_error", 500, "it failed", "<h1>", head),
        ),
        (
            Outcome.TIMEOUT,
            again,
            (None, "no answer", None, None),
            ("timeout", None, "no answer", None, None),
        ),
        (
            Outcome.NO_PROXY,
            back,
            (None, "all rest", None, None),
            ("no_proxy", None, "all rest", None, None),
        ),
        (Outcome.DEFERRED, back, nothing, ("no_proxy", None, "all rest", None, None)),
        (
            Outcome.TIMEOUT,
            again,
            (None, "no answer", None, None),
            ("timeout", None, "no answer", None, None),
        ),
        (Outcome.DEFERRED, back, nothing, ("timeout", None, "no answer", None, None)),
        (Outcome.FETCHED, OK, (200, None, None, None), ("fetched", 200, None, None, None)),
    ]:
        (batch,) = lease_all(engine, "shop.example")
        lease = claimed(engine, batch)
        assert lease is not None
        one = PageResult(lease.pages[0].id, crawl[1], batch.id, outcome, verdict, *details)
        store(engine, crawl, [one])
        assert rows(engine, LAST_TRY) == [known]
    assert accounts(engine) == (1, 3)
    assert rows(engine, "SELECT fetches, retries FROM crawls") == [(4, 3)]


# --- heads
# -----------------------------------------------------------------------------------------------------------

SECRET = "4f1d9c-the-visitors-identity"


@pytest.mark.parametrize(
    ("answer", "status", "outcome"),
    [
        (
            Answer(
                b"<h1>no", 403, headers=(f"Set-Cookie: session={SECRET}; Path=/", "Server: nginx")
            ),
            "due",
            "refused",
        ),
        (
            Answer(
                b"<h1>oops", 500, headers=(f"Set-Cookie: a={SECRET}", f"Set-Cookie: b={SECRET}")
            ),
            "due",
            "server_error",
        ),
        (
            Answer(b"<p>challenge", headers=(f"SET-COOKIE: {SECRET}", f"set-cookie: x={SECRET}")),
            "due",
            "not_extracted",
        ),
        (Answer(b"<h1>no", 404, headers=("Server: nginx",)), "gone", "not_found"),
        (Answer(b"<h1>slow", 429, headers=("Retry-After: 30",)), "due", "throttled"),
        (
            Answer(b"x", 403, headers=("X-Long: " + "a" * 5000, *(f"X-{n}: b" for n in range(90)))),
            "due",
            "refused",
        ),
    ],
)
def test_the_head_of_a_useless_answer_is_kept_without_secrets(
    engine: sa.Engine, environment: Settings, answer: Answer, status: str, outcome: str
) -> None:
    ((found, last, head, excerpt),) = fetched(engine, environment, answer)
    assert (found, last) == (status, outcome)
    assert isinstance(head, dict)
    assert len(answer.headers) >= HEAD_FIELDS or head["content-type"].startswith("text/html")
    assert SECRET not in str(head)
    assert len(head) <= HEAD_FIELDS
    assert all(len(name) <= HEAD_CHARS and len(value) <= HEAD_CHARS for name, value in head.items())
    assert str(excerpt) in answer.body.decode()


@pytest.mark.parametrize(
    "page",
    [
        Answer(product("x", "A").encode(), headers=("Server: nginx",)),
        at_first(
            Answer(b"<p>challenge", headers=("Server: bot-wall",)), product("x", "A").encode()
        ),
    ],
    ids=["at once", "at the second try"],
)
def test_a_good_page_keeps_no_head(engine: sa.Engine, environment: Settings, page: Page) -> None:
    assert fetched(engine, environment, page, tries=2) == [("ok", "fetched", None, None)]


def fetched(
    engine: sa.Engine, settings: Settings, page: object, tries: int = 1
) -> list[tuple[object, ...]]:
    """What the database has of a page that a worker tried."""
    with OddShop() as shop:
        url = shop.serve("/p", page)  # type: ignore[arg-type]
        site = a_site(
            start=shop.url("/"), allow_private=True, robots="ignore", rate="unlimited", revisit="0s"
        )
        crawl = open_crawl(engine, site)
        add(engine, [new_page(crawl, url)])
        worker = Worker(settings, lambda _: None)
        for _ in range(tries):
            with engine.begin() as connection:
                connection.execute(sa.text("UPDATE pages SET not_before = now()"))
            for message in dispatch(engine, settings, lambda _: 0):
                work = threading.Thread(
                    target=worker.settle_lease,
                    args=(UUID(message.kwargs["lease_id"]),),
                    daemon=True,
                )
                work.start()
                work.join(30)
        worker.close()
    return rows(engine, "SELECT status, last_outcome, response_head, excerpt FROM pages")


@pytest.mark.parametrize("status", [200, 403, 404, 429, 500, 503])
@pytest.mark.parametrize("name", ["Set-Cookie", "set-cookie", "SET-COOKIE"])
def test_no_cookie_is_ever_stored(
    engine: sa.Engine, environment: Settings, name: str, status: int
) -> None:
    """Whatever the answer: it is a visitor's identity, and not needed to see why a page
    failed."""
    answer = Answer(
        b"<p>no",
        status,
        headers=(f"{name}: id={SECRET}; Path=/", "Server: nginx", f"{name}: b={SECRET}"),
    )
    fetched(engine, environment, answer)
    ((whole,),) = rows(engine, "SELECT to_jsonb(p) FROM pages p")
    assert SECRET not in str(whole)
    assert "cookie" not in str(whole).lower()
    assert whole["response_head"]["server"] == "nginx"  # type: ignore[index]


@pytest.mark.parametrize("name", [b"Set-Cookie", b"set-cookie", b"SET-COOKIE"])
def test_headers_are_read_without_cookies(name: bytes) -> None:
    assert headers_dict([(b"A", b"b"), (name, b"x=1"), (name, b"y=2")]) == {"a": "b"}


def test_a_head_that_postgresql_would_reject_is_fixed() -> None:
    assert bound_headers(_Answered({"x": "a\x00b\ud800", "y" * 500: "z" * 500})) == {
        "x": "ab?",
        "y" * 200: "z" * 200,
    }  # type: ignore[arg-type]


class _Answered:
    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers
