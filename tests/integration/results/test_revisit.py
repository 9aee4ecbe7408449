"""Conditional requests and revisit intervals: real crawls of a shop that answers 304, honestly or
not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import sqlalchemy as sa

from scraper.domain import Outcome, Revisit, Status, Validators, Verdict
from scraper.http import exchange
from scraper.http.body import unpack
from scraper.quality import report as reports
from scraper.results import fill_rates, products
from scraper.results.transaction import PageResult
from tests.support.aging import age
from tests.support.broker import Broker
from tests.support.judged_crawls import HOST, Data, good, without
from tests.support.judged_crawls import Crawl as ByHand
from tests.support.judged_crawls import shop as by_hand
from tests.support.machine import everyday
from tests.support.making import rows, store
from tests.support.shops.conditional_shop import FIELDS, ConditionalShop

# the shop's Date is two hours later
MODIFIED = "Sat, 07 Nov 2026 08:00:00 GMT"

Crawl = Callable[..., Any]


# Whether the server says that a page has not changed, or its content alone does.
either = pytest.mark.parametrize("shop", ["304", "nonces"], indirect=True)


@pytest.fixture
def shop(request: pytest.FixtureRequest) -> Iterator[ConditionalShop]:
    with ConditionalShop() as shop:
        shop.nonces = getattr(request, "param", "304") == "nonces"
        yield shop


@pytest.fixture
def crawl(broker: Broker, shop: ConditionalShop) -> Crawl:
    """Runs a whole crawl; what the shop was asked before is forgotten."""

    def run(refetch: bool = False, **more: Any) -> Any:
        shop.asked.clear()
        return broker.crawl(shop.definition(**more), refetch=refetch)

    return run


def prices(engine: sa.Engine) -> dict[str, float]:
    return {
        str(key): float(str(price))
        for key, price in rows(engine, "SELECT external_id, data ->> 'price' FROM products")
    }


def versions(engine: sa.Engine) -> int:
    return int(str(rows(engine, "SELECT count(*) FROM product_versions")[0][0]))


def test_a_shop_that_has_not_changed_answers_304_and_is_not_read(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    first = crawl()
    assert shop.statuses() == {200: 6} and not any(one.conditional for one in shop.asked)
    assert (first.ok, first.not_modified, first.products_new) == (7, 0, 6)
    age(engine, 2)
    second = crawl()
    assert shop.statuses() == {304: 6} and all(one.conditional for one in shop.products())
    assert {one.headers["if-none-match"] for one in shop.products()} == {
        shop.etag(number) for number in shop.prices
    }
    assert (second.status, second.unchanged, second.not_modified, second.fetches) == (
        "completed",
        6,
        6,
        7,
    )
    assert (
        second.products_new,
        second.products_changed,
        second.products_delisted,
        second.suspect,
    ) == (0, 0, 0, False)
    assert versions(engine) == 0
    assert rows(
        engine,
        "SELECT DISTINCT last_outcome, status, error, response_head FROM pages WHERE kind = 'product'",
    ) == [("not_modified", "unchanged", None, None)]
    assert rows(
        engine, "SELECT count(*) FROM products WHERE missed_crawls = 0 AND delisted_at IS NULL"
    ) == [(6,)]
    assert rows(
        engine, "SELECT DISTINCT fetched_at > now() - interval '1 hour', crawl_id FROM products"
    ) == [(True, second.id)], "they were seen just now"
    assert rows(
        engine,
        f"SELECT sum(bytes) FROM throughput WHERE crawl_id = {second.id} AND outcome = 'not_modified'",
    ) == [(0,)]
    with engine.connect() as connection:
        report = reports.read_report(connection, second.id)
    assert (report.products, report.records, report.suspect, report.reasons) == (6, 0, False, [])


def test_what_has_changed_is_read_and_nothing_else(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    crawl()
    shop.prices[3] = "1.50 €"
    second = crawl()
    assert shop.statuses() == {200: 1, 304: 5}
    assert (second.products_changed, second.not_modified, versions(engine)) == (1, 5, 1)
    assert prices(engine)["3"] == 1.5
    third = crawl()
    assert (third.not_modified, versions(engine)) == (6, 1)


def test_listings_are_asked_for_whole(shop: ConditionalShop, crawl: Crawl) -> None:
    crawl()
    shop.listed.remove(2)
    shop.prices[7] = "7.90 €"
    shop.listed.append(7)
    second = crawl()
    assert [one.conditional for one in shop.asked if one.target == "/"] == [False]
    assert (second.products_new, second.not_modified) == (1, 5)


@pytest.mark.parametrize(
    ("change", "conditional"),
    [
        pytest.param(
            {
                "product": {
                    "fields": {
                        "title": {"css": "h1", "required": True},
                        "id2": "body::attr(data-id)",
                    }
                }
            },
            False,
            id="another field",
        ),
        pytest.param({"headers": {"Accept-Language": "de"}}, False, id="another language"),
        pytest.param({"strip_params": ["x"]}, False, id="other URLs"),
        pytest.param({"conditional": False}, False, id="switched off"),
        pytest.param(
            {"rate": "1000/s", "concurrency": 2, "title": "A shop", "priority": "high"},
            True,
            id="another rate",
        ),
        pytest.param(
            {"quality": "none", "conditional": "3d", "schedule": "0 6 * * *"},
            True,
            id="another schedule",
        ),
    ],
)
def test_another_definition_reads_whole_where_it_may_find_something_else(
    shop: ConditionalShop, crawl: Crawl, change: dict[str, Any], conditional: bool
) -> None:
    crawl()
    second = crawl(**change)
    assert {one.conditional for one in shop.products()} == {conditional}
    assert second.not_modified == (6 if conditional else 0)
    assert crawl(**change).not_modified == (0 if change == {"conditional": False} else 6)


def test_refetch_reads_whole_and_later_crawls_do_not(shop: ConditionalShop, crawl: Crawl) -> None:
    crawl()
    assert crawl(refetch=True).not_modified == 0 and shop.statuses() == {200: 6}
    assert crawl().not_modified == 6


def test_304_unasked_is_an_error_and_empties_nothing(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    shop.always_304 = True
    first = crawl()
    assert (first.status, first.not_modified, first.dead) == ("failed", 0, 6)
    assert rows(
        engine, "SELECT DISTINCT last_outcome, http_status, error FROM pages WHERE kind = 'product'"
    ) == [("malformed", 304, "the server answered 304 to a request without validators")]
    assert rows(engine, "SELECT FROM products") == []
    shop.always_304 = False
    assert crawl().products_new == 6
    shop.always_304 = True
    refetched = crawl(refetch=True)
    assert (refetched.status, refetched.not_modified, refetched.dead) == ("failed", 0, 6)
    assert len(prices(engine)) == 6 and refetched.products_delisted == 0


ETAGS = [
    "*", "unquoted", 'W/"a", "b"', '"a\x01b"', '"a\tb"', '"ä"', '"' + "x" * 600 + '"', '"', "", '"a" ', 'w/"a"',
    '"a"b"', "W/",
]  # fmt: skip


def test_what_is_not_a_validator_is_not_kept(engine: sa.Engine, broker: Broker) -> None:
    """`*` above all, which would have every page answered 304 for good."""
    with ConditionalShop(len(ETAGS)) as shop:
        shop.etags = dict(enumerate(ETAGS, 1))
        expected = {n: '"a"' if tag.strip() == '"a"' else None for n, tag in shop.etags.items()}
        broker.crawl(shop.definition())
        query = "SELECT substring(url FROM '[0-9]+$')::int, etag FROM pages WHERE kind = 'product'"
        assert dict(rows(engine, query)) == expected  # type: ignore[comparison-overlap,arg-type]
        shop.asked.clear()
        broker.crawl(shop.definition())
        asked = {int(one.target.removeprefix("/p/")): one for one in shop.products()}
        assert {n: one.headers.get("if-none-match") for n, one in asked.items()} == expected


def test_weak_tags_and_dates_go_back_as_they_came(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    shop.etags = {1: 'W/"a,b"', 2: None, 3: None, 4: None}
    shop.modified = {
        1: MODIFIED,
        2: MODIFIED,
        # no earlier than the answer itself
        3: "Sat, 07 Nov 2026 10:00:00 GMT",
        4: "2026-11-07",
    }
    crawl()
    crawl()
    assert shop.statuses() == {200: 2, 304: 4}
    sent = {
        one.target: (one.headers.get("if-none-match"), one.headers.get("if-modified-since"))
        for one in shop.products()
    }
    assert [sent[f"/p/{number}"] for number in (1, 2, 3, 4)] == [
        ('W/"a,b"', MODIFIED), (None, MODIFIED), (None, None), (None, None)
    ]  # fmt: skip


def test_a_shop_that_lies_is_believed_for_as_long_as_the_definition_says(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    shop.etags = dict.fromkeys(shop.prices, '"forever"')
    crawl(conditional="3d")
    shop.prices = {number: f"{number}.10 €" for number in shop.prices}
    age(engine, 48)
    assert crawl(conditional="3d").not_modified == 6
    age(engine, 25)
    third = crawl(conditional="3d")
    assert (third.not_modified, third.products_changed) == (0, 6), "a 304 is no reading"
    assert prices(engine) == {str(number): number + 0.1 for number in shop.prices}


@pytest.mark.parametrize("packed", ["", "gzip"])
def test_the_same_bytes_are_not_read_again_nor_unpacked(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl, packed: str, monkeypatch: Any
) -> None:
    shop.deaf, shop.packed = True, packed
    crawl()
    read = rows(engine, "SELECT id, read_at, extractor_hash FROM pages ORDER BY id")
    shop.prices[1] = "1.10 €"
    unpacked = []
    monkeypatch.setattr(exchange, "unpack", lambda *args: (unpacked.append(args), unpack(*args))[1])
    second = crawl()
    assert shop.statuses() == {200: 6} and len(unpacked) == 1
    assert (second.status, second.unchanged, second.not_modified) == ("completed", 5, 5)
    assert (second.products_changed, prices(engine)["1"]) == (1, 1.1)
    again = rows(engine, "SELECT id, read_at, extractor_hash FROM pages ORDER BY id")
    assert len(set(read) & set(again)) == 5, "nothing is read, and nothing is said of a reading"
    assert crawl().not_modified == 6
    assert rows(engine, "SELECT DISTINCT http_status FROM pages WHERE kind = 'product'") == [(200,)]


@pytest.mark.parametrize("change", [{"conditional": False}, {"strip_params": ["x"]}])
def test_the_same_bytes_are_read_again_where_another_definition_asks(
    shop: ConditionalShop, crawl: Crawl, change: dict[str, Any]
) -> None:
    shop.deaf = True
    crawl()
    assert (crawl(refetch=True).not_modified, crawl(**change).not_modified) == (0, 0)


def test_the_same_bytes_said_to_be_something_else_are_read_again(
    shop: ConditionalShop, crawl: Crawl, monkeypatch: Any
) -> None:
    """As an error page, as another type, and where a redirect leads to."""
    shop.deaf = True
    crawl()
    unpacked = []
    monkeypatch.setattr(exchange, "unpack", lambda *args: (unpacked.append(args), unpack(*args))[1])
    shop.kinds[1] = "text/html; charset=UTF8"
    shop.codes[2] = 503
    shop.redirects[3] = "/p/3?to"
    second = crawl()
    assert (second.not_modified, second.unchanged, second.dead) == (3, 5, 1)
    assert len(unpacked) == 1
    del shop.codes[2], shop.redirects[3]
    assert crawl().not_modified == 4, "what was not good, or redirected, is read whole"


def noted(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The ids of the products that are stored from now on."""
    ids: set[str] = set()
    upsert = products.upsert_products

    def upsert_and_note(connection: sa.Connection, given: Any, *more: Any) -> Any:
        ids.update(product.external_id for product in given)
        return upsert(connection, given, *more)

    monkeypatch.setattr(products, "upsert_products", upsert_and_note)
    return ids


def test_a_page_with_a_nonce_is_not_stored_again_unless_it_says_something_else(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.nonces = True
    crawl()
    kept = rows(engine, "SELECT id, extractor_hash, content_hash FROM pages ORDER BY id")
    bodies = rows(engine, "SELECT id, body_hash FROM pages WHERE kind = 'product'")
    age(engine, 2)
    shop.prices[1] = "1.10 €"
    stored = noted(monkeypatch)
    second = crawl()
    assert (shop.statuses(), stored) == ({200: 6}, {"1"})
    assert (second.status, second.unchanged, second.not_modified) == ("completed", 5, 0)
    assert (second.products_changed, prices(engine)["1"], versions(engine)) == (1, 1.1, 1)
    again = rows(engine, "SELECT id, extractor_hash, content_hash FROM pages ORDER BY id")
    assert len(set(kept) & set(again)) == 6, "of seven, one of which has another price"
    assert not set(bodies) & set(rows(engine, "SELECT id, body_hash FROM pages"))
    assert not rows(engine, "SELECT FROM products WHERE fetched_at < now() - interval '1 hour'")
    records = rows(engine, "SELECT records FROM crawl_quality ORDER BY crawl_id")
    assert records == [(6,), (6,)], "what is read is counted, stored or not"
    stored.clear()
    assert (crawl().unchanged, stored) == (6, set())


def test_a_page_that_sends_the_same_is_asked_with_its_new_validators(
    shop: ConditionalShop, crawl: Crawl
) -> None:
    crawl()
    shop.etags[1] = '"today"'
    assert (crawl().not_modified, shop.statuses()) == (6, {200: 1, 304: 5})
    assert (crawl().not_modified, shop.statuses()) == (6, {304: 6})


@pytest.mark.parametrize("change", [{"conditional": False}, {"headers": {"Accept-Language": "de"}}])
def test_a_page_with_a_nonce_is_stored_again_where_it_is_to_be_read_whole(
    engine: sa.Engine,
    shop: ConditionalShop,
    crawl: Crawl,
    change: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop.nonces = True
    crawl()
    stored = noted(monkeypatch)
    crawl(**change)
    assert len(stored) == 6, "another definition"
    stored.clear()
    crawl(refetch=True, **change)
    assert len(stored) == 6
    age(engine, 80)
    stored.clear()
    crawl(**(change | {"conditional": "3d"}))
    assert len(stored) == 6, "it is believed for three days"


def test_a_page_with_the_values_of_another_product_is_stored(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a field that has gone from a page counts as gone, whatever is stored in its place."""
    shop.nonces = True
    fields = FIELDS | {"stock": {"css": ".stock", "type": "int", "default": 0}}
    product = {"id": {"css": "body::attr(data-id)"}, "fields": fields}
    shop.more = {1: '<p class="stock">0</p>', 2: '<p class="stock">0</p>'}
    crawl(product=product)
    del shop.more[1]
    shop.more[4] = '<p class="stock">many</p>'
    shop.ids = {3: "7"}
    stored = noted(monkeypatch)
    second = crawl(product=product)
    assert (second.unchanged, stored) == (6, {"7"})
    ((found, mistyped),) = rows(
        engine, "SELECT found, mistyped FROM crawl_quality ORDER BY crawl_id DESC LIMIT 1"
    )
    assert (found["stock"], mistyped) == (1, {"stock": 1})  # type: ignore[index]


def test_a_redirected_page_has_no_validators_and_none_go_along(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    shop.redirects[1] = "/p/1?to"
    crawl()
    assert rows(engine, "SELECT etag, extractor_hash FROM pages WHERE url LIKE '%/p/1'") == [
        (None, None)
    ]
    # from here on: its own validators are not those of where it leads to
    shop.redirects[2] = "/p/2?to"
    second = crawl()
    assert [one.conditional for one in shop.asked if one.target.startswith("/p/2")] == [True, False]
    assert (second.not_modified, second.dead, shop.statuses()) == (4, 0, {200: 2, 302: 2, 304: 4})


def test_after_a_bad_answer_a_page_is_read_whole(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    crawl()
    shop.titles[1] = ""
    second = crawl()
    assert (second.invalid, second.not_modified) == (1, 5)
    del shop.titles[1]
    third = crawl()
    assert [one.conditional for one in shop.products() if one.target == "/p/1"] == [False]
    assert (third.ok + third.unchanged, third.not_modified) == (7, 5)


def test_after_a_suspect_crawl_all_that_it_may_have_read_is_read_again(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    crawl()
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET suspect = true"))
    assert crawl().not_modified == 0
    assert crawl().not_modified == 6
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE crawls SET suspect = true WHERE id = (SELECT max(id) FROM crawls)")
        )
        connection.execute(sa.text("UPDATE crawls SET suspect = false, accepted_at = now()"))
    assert crawl().not_modified == 6, "somebody has looked at it"


def test_a_page_whose_product_kept_a_value_is_read_whole(engine: sa.Engine) -> None:
    """The stored product is not what its page says: a 304 of that page would confirm something
    else."""

    def crawled(data: Callable[[int], Data]) -> dict[str, bool]:
        """By page: whether the next crawl asks it with its validators."""
        crawl = ByHand(engine, by_hand(), range(40))
        leased = crawl.lease()
        for begin in range(0, len(leased), 10):
            group = [
                crawl.page(number, page, data(number))
                for number, page in leased[begin : begin + 10]
            ]
            store(
                engine,
                crawl.ids,
                [replace(page, revisit=Revisit(Validators('"a"'), 7)) for page in group],
            )
        crawl.end()
        return dict(rows(engine, "SELECT url, extractor_hash IS NOT NULL FROM pages"))  # type: ignore[arg-type]

    assert set(crawled(good).values()) == {True}
    asked = crawled(lambda number: good(number) if number >= 10 else without(good(number), "brand"))
    assert {url for url, conditional in asked.items() if not conditional} == {
        f"https://{HOST}/p/{n}" for n in range(10)
    }
    assert set(crawled(good).values()) == {True}


@either
def test_a_page_that_owns_no_product_is_read_whole_and_takes_over(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    """Pages 1 and 2 give the same product, which the first one owns: when that is gone, 304 of the
    other would lose it."""
    shop.ids = {1: "same", 2: "same"}
    crawl()
    ((owner,),) = rows(
        engine,
        "SELECT g.url FROM products p JOIN pages g ON g.id = p.page_id WHERE external_id = 'same'",
    )
    second = crawl()
    assert shop.nonces or second.not_modified == 5, "one of the two owns nothing"
    gone = int(str(owner)[-1])
    del shop.prices[gone]
    shop.listed.remove(gone)
    for _ in range(3):
        last = crawl()
        assert last.products_delisted == 0
    assert rows(engine, "SELECT count(*) FROM products WHERE delisted_at IS NULL") == [(5,)]
    assert rows(
        engine,
        "SELECT g.url FROM products p JOIN pages g ON g.id = p.page_id WHERE external_id = 'same'",
    ) == [(shop.url(f"/p/{3 - gone}"),)]


@either
def test_what_is_delisted_and_comes_back_unchanged_is_listed_again(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    crawl()
    shop.listed.remove(1)
    assert [crawl().products_delisted for _ in range(3)] == [0, 0, 1], "its page is there"
    shop.listed.append(1)
    assert crawl().unchanged == 6
    assert (
        rows(engine, "SELECT FROM products WHERE delisted_at IS NOT NULL OR missed_crawls > 0")
        == []
    )
    told = rows(engine, "SELECT event, version FROM changes WHERE event LIKE '%listed' ORDER BY id")
    assert told == [("delisted", 1), ("relisted", 1)]


@either
def test_an_unchanged_page_of_a_missed_product_does_not_list_it(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    crawl()
    shop.listed.remove(1)
    delisted = []
    for _ in range(3):
        age(engine, 2)
        delisted.append(crawl().products_delisted)
    assert delisted == [0, 0, 1]


@either
def test_a_page_that_was_requested_for_a_missed_product_is_read_whole_afterwards(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    """Its new price was not stored, so neither its age nor its validators may confirm the old."""
    crawl(revisit="7d")
    shop.listed.remove(1)
    crawl(revisit="7d")
    shop.prices[1] = "1.50 €"
    crawl(revisit="7d")
    assert shop.statuses() == {200: 1} and prices(engine)["1"] == 1.9
    shop.listed.append(1)
    crawl(revisit="7d")
    assert shop.statuses() == {200: 1} and prices(engine)["1"] == 1.5


@either
def test_a_product_that_was_deleted_by_hand_comes_back(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    crawl()
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM products WHERE external_id = '4'"))
    second = crawl()
    assert second.products_new == 1 and (shop.nonces or second.not_modified == 5)


# Quality.


def partly(engine: sa.Engine, numbers: range, data: Callable[[int], Data | None]) -> ByHand:
    """A crawl that has ended, in which products answered 304 but for those of which `data` says
    something."""
    crawl = ByHand(engine, by_hand(), numbers)
    pages = []
    for number, leased in crawl.lease():
        found = data(number)
        if found is not None:
            pages.append(crawl.page(number, leased, found))
        else:
            page, lease_id = leased
            verdict = Verdict(Status.UNCHANGED, 0.0, True)
            pages.append(
                PageResult(page.id, crawl.id, lease_id, Outcome.NOT_MODIFIED, verdict, 304)
            )
    for begin in range(0, len(pages), 10):
        store(engine, crawl.ids, pages[begin : begin + 10])
    return crawl.end()


def test_crawls_of_304s_do_not_make_anybody_forget_what_is_usual(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fill_rates, "SEARCHED", 3)
    numbers = range(40)
    partly(engine, numbers, good)
    partly(engine, numbers, lambda number: good(number) if number < 3 else None)
    for _ in range(4):
        quiet = partly(engine, numbers, lambda number: None)
        assert (quiet.row.suspect, quiet.row.not_modified, quiet.row.status) == (
            False,
            40,
            "completed",
        )
    broken = partly(
        engine, numbers, lambda number: without(good(number), "brand") if number < 20 else None
    )
    assert broken.why == {("brand", "fill")}
    assert rows(engine, "SELECT count(*) FROM products WHERE data ->> 'brand' IS NOT NULL") == [
        (40,)
    ]


@pytest.mark.slow
def test_what_changes_does_not_measure_the_whole(engine: sa.Engine) -> None:
    """Products on offer change more often: in crawls that read what has changed, a tag is found on
    all, else on one in ten. The next whole crawl is not suspect for that, nor are those in between.
    """

    def as_ever(number: int) -> Data:
        return good(number, tag="offer") if number % 10 == 0 else good(number)

    numbers = range(300)
    crawls = [partly(engine, numbers, as_ever)]
    crawls += [
        partly(engine, numbers, lambda number: as_ever(number) if number % 10 == 0 else None)
        for _ in range(3)
    ]
    crawls += [partly(engine, numbers, as_ever)]
    assert [crawl.why for crawl in crawls] == [set()] * 5
    assert [crawl.fields["tag"].usual_fill for crawl in crawls] == [None, 0.1, 1.0, 1.0, 0.1]


# Intervals.

ADAPTIVE = {"min": "6h", "max": "14d"}


def intervals(engine: sa.Engine) -> dict[str, float]:
    """By product: hours."""
    query = "SELECT right(url, 1), revisit_s FROM pages WHERE kind = 'product' ORDER BY 1"
    return {
        str(number): round(int(str(seconds)) / 3600, 1) for number, seconds in rows(engine, query)
    }


@either
def test_each_page_has_an_interval_of_its_own(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    crawl(revisit=ADAPTIVE)
    assert set(intervals(engine).values()) == {6.0}
    age(engine, 6.1)
    shop.prices[1] = "1.80 €"
    second = crawl(revisit=ADAPTIVE)
    assert (second.fresh, second.unchanged, second.products_changed) == (0, 5, 1)
    assert intervals(engine) == {"1": 6.0} | dict.fromkeys("23456", 13.0)
    age(engine, 6.1)
    shop.prices[1] = "1.70 €"
    third = crawl(revisit=ADAPTIVE)
    assert (third.fresh, third.products_changed) == (5, 1)
    assert [one.target for one in shop.products()] == ["/p/1"], "nobody is asked who is not due"
    age(engine, 7)
    fourth = crawl(revisit=ADAPTIVE)
    assert (fourth.fresh, fourth.unchanged, fourth.products_delisted) == (0, 6, 0)
    # Each look counts once.
    looks = rows(
        engine,
        """SELECT right(url, 1), round(changes::numeric, 1), round(quiet_days::numeric * 24, 1)
             FROM page_visits JOIN pages ON id = page_id ORDER BY 1""",
    )
    assert [
        (str(page), float(str(changes)), float(str(quiet))) for page, changes, quiet in looks
    ] == [
        ("1", 2.0, 0.0),
        *((page, 0.0, 6.1) for page in "23456"),
    ]
    assert (
        rows(engine, "SELECT FROM products WHERE missed_crawls > 0 OR delisted_at IS NOT NULL")
        == []
    )


def test_a_page_that_is_read_again_and_is_the_same_rests_longer_too(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    """Without validators the content hash says so."""
    shop.etags = dict.fromkeys(shop.prices)
    crawl(revisit=ADAPTIVE)
    age(engine, 6)
    crawl(revisit=ADAPTIVE)
    assert shop.statuses() == {200: 6} and set(intervals(engine).values()) == {12.9}
    shop.prices = dict.fromkeys(shop.prices, "0.30 €")
    age(engine, 13)
    crawl(revisit=ADAPTIVE)
    assert set(intervals(engine).values()) == {6.0}


def test_looks_right_after_each_other_say_little(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    for refetch in (False, True, True, True):
        crawl(revisit=ADAPTIVE, refetch=refetch)
    assert set(intervals(engine).values()) == {6.0}


def test_the_bounds_of_today_count(engine: sa.Engine, shop: ConditionalShop, crawl: Crawl) -> None:
    """However long a page rests by its own interval, a definition with a shorter maximum fetches
    it; and vice versa."""
    crawl(revisit=ADAPTIVE)
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE pages SET revisit_s = 10 * 86400"))
    age(engine, 30)
    assert crawl(revisit=ADAPTIVE).fresh == 6
    assert crawl(revisit={"min": "6h", "max": "1d"}).fresh == 0
    assert max(intervals(engine).values()) <= 24
    age(engine, 30)
    assert crawl(revisit={"min": "2d", "max": "3d"}).fresh == 6
    assert crawl(revisit="3d").fresh == 6
    assert crawl(revisit="1d").fresh == 0
    assert rows(engine, "SELECT DISTINCT revisit_s FROM pages WHERE kind = 'product'") == [(None,)]


@either
def test_a_product_that_is_neither_found_nor_due_is_missed_as_ever(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    crawl(revisit=ADAPTIVE)
    shop.listed.remove(6)
    del shop.prices[6]
    assert [crawl(revisit=ADAPTIVE).products_delisted for _ in range(2)] == [0, 1]
    assert rows(engine, "SELECT external_id FROM products WHERE delisted_at IS NOT NULL") == [
        ("6",)
    ]


def events(engine: sa.Engine, crawl_id: int) -> list[tuple[object, ...]]:
    return rows(
        engine,
        f"""SELECT p.external_id, c.event FROM changes c JOIN products p ON p.id = c.product_id
             WHERE c.crawl_id = {crawl_id} ORDER BY 1, 2""",
    )


@pytest.mark.parametrize(
    ("hours", "title"),
    everyday(product((0, 2), ("Another thing", "No. 1")), (0, "No. 1"), (2, "Another thing")),
)
def test_a_product_whose_page_gives_another_one_is_missed_and_comes_back(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl, hours: float, title: str
) -> None:
    def crawled() -> list[tuple[object, ...]]:
        age(engine, hours)
        ended = crawl()
        assert (ended.status, ended.suspect) == ("completed", False)
        return events(engine, ended.id)

    crawled()
    shop.ids[1], shop.titles[1] = "77", title
    assert crawled() == [], "a product in another one's place waits"
    assert crawled() == [("77", "new")]
    assert crawled() == [("1", "delisted")]
    assert shop.statuses() == {304: 6}, "the server confirms the page, not what it gave before"
    assert crawled() == []

    shop.ids.clear(), shop.titles.clear()
    assert crawled() == [("1", "relisted")]
    assert crawled() == [("77", "delisted")]
    assert crawled() == []


def test_a_product_whose_page_gives_another_one_may_be_at_a_second_address(
    engine: sa.Engine, shop: ConditionalShop, crawl: Crawl
) -> None:
    shop.ids[2], shop.titles[2], shop.prices[2] = "1", "No. 1", shop.prices[1]
    for _ in range(2):
        crawl()
        age(engine, 2)
    owner = rows(engine, "SELECT page_id FROM products WHERE external_id = '1'")
    first = rows(engine, "SELECT id FROM pages WHERE url LIKE '%/p/1'")
    leaves = 1 if owner == first else 2
    shop.ids[leaves], shop.titles[leaves] = "77", "Another thing"
    for _ in range(4):
        assert ("1", "delisted") not in events(engine, crawl().id)
        age(engine, 2)
    assert rows(engine, "SELECT missed_crawls, delisted_at FROM products") == [(0, None)] * 6
