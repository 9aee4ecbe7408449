"""Trust in the data: fields are counted as pages are settled, once; a field that breaks empties no
product; what is judged when a crawl ends, and what a person may say to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from importlib import import_module

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper import settings as settings_module
from scraper.cli.main import main
from scraper.coordinator import reap
from scraper.coordinator.reap import judge_leftovers
from scraper.domain import (
    CrawlStatus,
    FieldObservations,
    Outcome,
    Status,
    Verdict,
)
from scraper.frontier import crawls, leases
from scraper.plugins.alerts.crawls import alert_crawls
from scraper.quality import report
from scraper.results.judgement import crawl_quality
from scraper.results.transaction import PageResult
from scraper.sites.definition import Site
from tests.support import making
from tests.support.judged_crawls import (
    HOST,
    Crawl,
    Data,
    crawled,
    good,
    shop,
    stored,
    versions,
    without,
)


def held(engine: sa.Engine) -> int:
    return int(str(making.rows(engine, "SELECT count(*) FROM held_values")[0][0]))


ALL = {str(number): good(number) for number in range(40)}


def judge_and_alert(engine: sa.Engine) -> None:
    """What the ticks `reap` and `alert` do with crawls that have ended."""
    judge_leftovers(engine)
    alert_crawls(engine, settings_module.load())


def test_what_was_counted_equals_the_pages(engine: sa.Engine) -> None:
    crawl = Crawl(engine, shop(), range(30))
    crawl.settle(
        lambda number: (
            None if number < 3 else good(number) if number < 20 else without(good(number), "brand")
        )
    )
    assert crawl.fields["name"].records == 30, "also of a crawl that runs"
    crawl.end()
    found = {name: (one.records, one.found) for name, one in crawl.fields.items()}
    assert found == {"name": (30, 27), "price": (30, 30), "brand": (30, 20), "tag": (30, 0)}
    row = crawl.row
    assert row.ok + row.unchanged + row.invalid == 30
    assert crawl.fields["brand"].distinct == 17 and crawl.fields["price"].sampled == 27
    assert not row.suspect and row.judged_at is not None


def test_crawls_that_cannot_be_judged_keep_no_other_waiting(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    good_one = crawled(engine, shop(), range(3))
    with engine.begin() as connection:
        copied = connection.execute(
            sa.text(
                "INSERT INTO crawls (site_id, slot, trigger, status, definition, definition_hash,"
                " rate_per_s, concurrency) SELECT site_id, now() - n * interval '1 day', trigger,"
                " 'stopped', definition, definition_hash, rate_per_s, concurrency"
                " FROM crawls, generate_series(1, 30) AS n RETURNING id"
            )
        )
        bad = list(copied.scalars())[:-1]
    judge = reap._judge_leftover

    def judge_some(connection: sa.Connection, crawl_id: int) -> None:
        if crawl_id in bad:
            raise ValueError(crawl_id)
        judge(connection, crawl_id)

    monkeypatch.setattr(reap, "_judge_leftover", judge_some)
    waiting = "SELECT id FROM crawls WHERE judged_at IS NULL ORDER BY id"
    for _ in range(50):
        judge_leftovers(engine)
        if len(making.rows(engine, waiting)) == len(bad):
            break
    assert [row[0] for row in making.rows(engine, waiting)] == bad and good_one.row.judged_at

    def lose_connection(connection: sa.Connection, crawl_id: int) -> None:
        connection.connection.dbapi_connection.close()  # type: ignore[union-attr]
        connection.execute(sa.text("SELECT 1"))

    monkeypatch.setattr(reap, "_judge_leftover", lose_connection)
    with pytest.raises(sa.exc.OperationalError):
        judge_leftovers(engine)


def test_a_first_crawl_that_is_broken_is_said_and_sets_no_usual(engine: sa.Engine) -> None:
    first = crawled(engine, shop(), range(30), lambda number: without(good(number), "price"))
    assert first.row.suspect and first.why == {("price", "never")}
    second = crawled(engine, shop(), range(30), lambda number: without(good(number), "price"))
    assert second.why == {("price", "never")}, "what is broken from the first day is not usual"
    repaired = crawled(engine, shop(), range(30))
    assert not repaired.row.suspect and repaired.fields["price"].usual_fill is None
    again = crawled(engine, shop(), range(30), lambda number: without(good(number), "price"))
    assert again.why == {("price", "fill")}
    assert stored(engine) == {str(number): good(number) for number in range(30)}


def test_a_lost_lease_and_a_message_that_comes_twice_count_nothing(engine: sa.Engine) -> None:
    crawl = Crawl(engine, shop(), range(6))
    leased = crawl.lease()
    late = [crawl.page(number, page, good(number)) for number, page in leased[:3]]
    making.expire(engine, leased[0][1][1])
    with engine.begin() as connection:
        leases.reclaim_expired(connection)
    making.store(engine, crawl.ids, late)
    assert crawl.fields == {}, "its lease is lost"
    again = [crawl.page(number, page, good(number)) for number, page in crawl.lease()]
    making.store(engine, crawl.ids, again)
    making.store(engine, crawl.ids, again)
    assert crawl.end().fields["name"].found == 6


def test_a_page_that_is_tried_again_is_counted_when_it_is_done(engine: sa.Engine) -> None:
    crawl = Crawl(engine, shop(), range(1))
    _, (page, lease_id) = crawl.lease()[0]
    again = PageResult(
        page.id, crawl.id, lease_id, Outcome.NOT_EXTRACTED, Verdict(Status.DUE, 0.0, True), 200
    )
    making.store(engine, crawl.ids, [replace(again, observations=FieldObservations(1, ()))])
    assert crawl.fields == {}
    crawl.settle(good)
    assert crawl.end().fields["name"].records == 1


def test_a_broken_field_empties_no_product_from_its_first_page_on(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(40))
    second = crawled(engine, shop(), range(40))
    assert not second.row.suspect and stored(engine) == ALL
    third = crawled(engine, shop(), range(35), lambda number: without(good(number), "price"))
    assert (
        third.row.status == "completed" and third.row.suspect and third.why == {("price", "fill")}
    )
    assert stored(engine) == ALL and versions(engine) == 0, (
        "the values and their currencies are there"
    )
    assert third.row.products_changed == third.row.products_delisted == 0
    assert third.fields["price"].held == 35 and third.fields["price"].breach == "fill"
    assert third.fields["brand"].breach is None and third.fields["brand"].held == 0
    missed = making.rows(engine, "SELECT count(*) FROM products WHERE missed_crawls > 0")
    assert missed == [(0,)], "a suspect crawl's misses are none"
    assert making.rows(engine, "SELECT crawl_id FROM alerts") == [(third.id,)]
    repaired = crawled(engine, shop(), range(40))
    assert not repaired.row.suspect and stored(engine) == ALL and held(engine) == 0
    assert repaired.fields["price"].usual_fill == 1.0, "a suspect crawl is not what is usual"


def test_other_changes_of_such_a_page_come_through(engine: sa.Engine) -> None:
    def named(number: int) -> Data:
        return good(number, name=f"new {number}") if number < 8 else good(number)

    crawled(engine, shop(), range(20))
    crawl = crawled(
        engine,
        shop(),
        range(20),
        lambda number: without(named(number), "price"),
    )
    assert crawl.row.suspect and crawl.row.products_changed == 8 == versions(engine)
    assert stored(engine)["7"] == good(7, name="new 7")
    again = crawled(
        engine,
        shop(),
        range(20),
        lambda number: without(named(number), "price"),
    )
    assert again.row.suspect and again.row.products_changed == 0 and versions(engine) == 8, (
        "nothing has changed again"
    )


def test_a_required_field_that_breaks_is_named_too(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(20))
    crawl = crawled(engine, shop(), range(20), lambda number: None)
    assert crawl.row.status == "failed" and crawl.why == {
        (None, "products"),
        (None, "pages"),
        ("name", "fill"),
    }
    assert stored(engine) == {str(number): good(number) for number in range(20)}


@pytest.mark.parametrize("first", [1, 2])
def test_a_value_that_vanishes_by_itself_waits_for_a_second_crawl(
    engine: sa.Engine, first: int
) -> None:
    crawled(engine, shop(), range(40))

    def some(number: int) -> Data:
        return without(good(number), "price") if number < first else good(number)

    crawl = crawled(engine, shop(), range(40), some)
    assert not crawl.row.suspect and stored(engine) == ALL and held(engine) == first
    crawl = crawled(engine, shop(), range(40), some)
    assert not crawl.row.suspect and held(engine) == 0
    gone = {
        external_id: data for external_id, data in stored(engine).items() if "price" not in data
    }
    assert len(gone) == first == versions(engine) == crawl.row.products_changed
    assert all("price_currency" not in data and "brand" in data for data in gone.values())


def test_a_value_that_vanishes_with_another_change_waits_with_it(engine: sa.Engine) -> None:
    """What is sold out has no brand here: one change, one version, and no state in between."""
    crawled(engine, shop(), range(40))
    sold_out = good(33, name="sold out")
    for values in (2, 0):
        crawl = crawled(
            engine,
            shop(),
            range(40),
            lambda number: without(sold_out, "brand") if number == 33 else good(number),
        )
        assert not crawl.row.suspect and held(engine) == values
    assert stored(engine)["33"] == without(sold_out, "brand") and versions(engine) == 1
    assert crawl.row.products_changed == 1


def test_a_field_that_breaks_in_the_middle_of_a_crawl(engine: sa.Engine) -> None:
    numbers = range(400)
    crawled(engine, shop(), numbers)
    crawl = Crawl(engine, shop(), numbers)
    crawl.settle(good, pages=360)
    crawl.settle(lambda number: without(good(number), "price"))
    crawl.end()
    assert crawl.why == {("price", "late")}, "nine tenths of the crawl were sound"
    assert stored(engine) == {str(number): good(number) for number in numbers}
    assert crawl.fields["price"].held == 40


def test_a_break_that_begins_within_a_group(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(200))
    crawl = Crawl(engine, shop(), range(200))
    crawl.settle(good, pages=150)
    leased = crawl.lease()
    pages = [
        crawl.page(n, page, good(n) if place < 40 else without(good(n), "price"))
        for place, (n, page) in enumerate(leased)
    ]
    making.store(engine, crawl.ids, pages)
    assert stored(engine) == {str(number): good(number) for number in range(200)}


def test_two_workers_that_settle_the_first_pages_at_once(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(40))
    crawl = Crawl(engine, shop(), range(40))
    pages = [
        crawl.page(number, page, without(good(number), "price")) for number, page in crawl.lease()
    ]
    making.at_once(
        [lambda part=part: making.store(engine, crawl.ids, pages[part::4]) for part in range(4)]
    )  # type: ignore[misc]
    assert stored(engine) == ALL
    crawl.end()
    assert stored(engine) == ALL and crawl.row.suspect
    assert crawl.fields["price"].records == 40 and crawl.fields["price"].held == 40


def test_accepted_the_values_go_and_the_next_crawl_is_as_usual(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(30))
    crawl = crawled(engine, shop(), range(30), lambda number: without(good(number), "price"))
    assert crawl.row.suspect
    with engine.begin() as connection:
        assert crawl_quality.accept_crawl(connection, crawl.id)
        assert not crawl_quality.accept_crawl(connection, crawl.id)
    assert all(
        "price" not in data and "price_currency" not in data for data in stored(engine).values()
    )
    assert not crawl.row.suspect and crawl.row.accepted_at and crawl.row.reasons
    assert crawl.row.products_changed == 30 and held(engine) == 0
    later = crawled(engine, shop(), range(30), lambda number: without(good(number), "price"))
    assert not later.row.suspect and later.fields["price"].usual_fill == 0.0


def test_a_shop_that_has_changed_gets_through_by_itself_where_its_definition_says_so(
    engine: sa.Engine,
) -> None:
    site = shop(quality={"accept_after": 3})
    crawled(engine, site, range(30))
    emptied = [
        crawled(engine, site, range(30), lambda number: without(good(number), "price"))
        for _ in range(3)
    ]
    assert [bool(one.row.suspect) for one in emptied] == [True, True, False]
    assert emptied[2].row.accepted_at is not None and "price" not in stored(engine)["3"]
    assert making.rows(engine, "SELECT count(*) FROM alerts") == [(2,)]


def test_a_crawl_that_has_another_reason_too_is_not_accepted_by_itself(engine: sa.Engine) -> None:
    site = shop(quality={"accept_after": 2})
    for _ in range(2):
        crawled(engine, site, range(60))
    crawled(engine, site, range(60), lambda number: without(good(number), "price"))
    crawl = crawled(engine, site, range(48), lambda number: without(good(number), "price"))
    assert crawl.why == {("price", "fill"), (None, "missed")}
    assert crawl.row.suspect and crawl.row.accepted_at is None
    with engine.begin() as connection:
        assert crawl_quality.accept_crawl(connection, crawl.id)


def test_crawls_that_differ_in_their_reasons_do_not_agree(engine: sa.Engine) -> None:
    site = shop(quality={"accept_after": 2})
    crawled(engine, site, range(30))
    crawled(engine, site, range(30), lambda number: without(good(number), "price"))
    other = crawled(engine, site, range(30), lambda number: without(good(number), "brand"))
    assert other.row.suspect and other.row.accepted_at is None


def test_far_fewer_products_than_usual_delist_nothing(engine: sa.Engine) -> None:
    """Until a second crawl has found as few: then the misses of both count."""
    crawled(engine, shop(), range(40))
    smaller = [crawled(engine, shop(), range(10)) for _ in range(4)]
    assert smaller[0].why == {(None, "products")}
    assert [bool(crawl.row.suspect) for crawl in smaller] == [True, False, False, False]
    assert [crawl.row.products_delisted for crawl in smaller] == [0, 30, 0, 0]


def test_misses_are_counted_over_crawls_that_are_not_suspect(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(40))
    first = crawled(engine, shop(), range(39))
    suspect = crawled(engine, shop(), range(39), lambda number: without(good(number), "price"))
    assert not first.row.suspect and suspect.row.suspect and suspect.row.products_delisted == 0
    third = crawled(engine, shop(), range(39))
    assert third.row.products_delisted == 1


def test_values_that_are_all_the_same(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(40))
    crawl = crawled(engine, shop(), range(40), lambda number: good(number, price=Decimal("5.00")))
    assert crawl.why == {("price", "distinct")} and crawl.fields["price"].distinct == 1


@pytest.mark.parametrize("renamed", [False, True])
def test_one_brand_alone_may_be_all_that_a_crawl_reads(engine: sa.Engine, renamed: bool) -> None:
    """The other pages answer 304. A single brand is news only if the products had others."""
    numbers = range(120)

    def branded(n: int) -> Data:
        return good(n, brand=f"b{n // 30}.{n % 10 if n < 30 else 0}")

    crawled(engine, shop(), numbers, branded)
    for _ in range(3):
        crawled_partly(engine, shop(), numbers, range(30), branded)
    if renamed:
        crawl = crawled_partly(engine, shop(), numbers, range(30), lambda n: good(n, brand="b1"))
        assert {field for field, _ in crawl.why} == {"brand"}
    else:
        crawl = crawled_partly(
            engine, shop(), numbers, range(60, 90), lambda n: branded(n) | {"tag": "back in stock"}
        )
        assert crawl.why == set()


def test_one_price_alone_may_be_all_that_a_crawl_reads(engine: sa.Engine) -> None:
    """Some products get one price, and the other pages answer 304: these values are doubted, and not
    the field. Cards of listings may confirm them."""
    numbers = range(120)
    crawled(engine, shop(), numbers)
    for _ in range(3):
        crawled_partly(engine, shop(), numbers, range(30), lambda n: good(n) | {"tag": "new"})
    crawl = crawled_partly(
        engine, shop(), numbers, range(30, 42), lambda n: good(n, price=Decimal("5.00"))
    )
    assert crawl.why == {("price", "implausible")}
    held = "SELECT field, reason, count(*) FROM held_values GROUP BY field, reason ORDER BY 2"
    assert making.rows(engine, held) == [("price", "leap", 2), ("price", "shared", 10)]


@pytest.mark.parametrize("lost", [False, True])
def test_products_that_never_had_a_field_do_not_miss_it(engine: sa.Engine, lost: bool) -> None:
    """A crawl may read only products that are not on sale, while the others answer 304."""
    numbers = range(120)
    site = shop()
    site.product.fields["list_price"] = site.product.fields["price"]

    def reduced(n: int) -> Data:
        return good(n, list_price=Decimal(n + 10)) if n < 60 else good(n)

    crawled(engine, site, numbers, reduced)
    for _ in range(3):
        crawled_partly(engine, site, numbers, range(30), reduced)
    if lost:
        crawl = crawled_partly(engine, site, numbers, range(30), good)
        assert crawl.why == {("list_price", "fill")}
    else:
        crawl = crawled_partly(
            engine, site, numbers, range(60, 90), lambda n: good(n, tag="back in stock")
        )
        assert crawl.why == set()


def crawled_partly(
    engine: sa.Engine,
    site: Site,
    numbers: range,
    read: range,
    data: Callable[[int], Data],
) -> Crawl:
    """A crawl that reads some pages; the others answer 304."""
    crawl = Crawl(engine, site, numbers)
    unchanged = Verdict(Status.UNCHANGED, 0.0, True)
    pages = [
        crawl.page(n, leased, data(n))
        if n in read
        else PageResult(leased[0].id, crawl.id, leased[1], Outcome.NOT_MODIFIED, unchanged, 304)
        for n, leased in crawl.lease()
    ]
    making.store(engine, crawl.ids, pages)
    return crawl.end()


def test_values_of_another_type(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(40))
    for _ in range(2):
        crawl = crawled(
            engine,
            shop(),
            range(40),
            lambda number: without(good(number), "price"),
            mistyped=["price"],
        )
        assert crawl.why == {("price", "mistyped")} and crawl.fields["price"].mistyped == 40
        assert stored(engine) == ALL
    with engine.connect() as connection:
        *_, answer = report.read_report(connection, crawl.id).answers
    assert answer.startswith("if you do nothing: vanished values stay until you accept; ")


def test_floors_count_in_the_first_crawl_and_a_floor_of_0_is_never_broken(
    engine: sa.Engine,
) -> None:
    fields = {
        "name": "h1",
        "price": {"css": ".p", "type": "price", "floor": "90%"},
        "brand": {"css": ".b", "floor": 0},
    }
    site = making.a_site(
        start=f"https://{HOST}/", product={"fields": fields}, quality={"products_floor": 25}
    )
    first = crawled(
        engine,
        site,
        range(24),
        lambda number: without(good(number), "price") if number < 4 else good(number),
    )
    assert first.why == {("price", "floor"), (None, "products_floor")}
    crawled(engine, site, range(30))
    gone = crawled(engine, site, range(30), lambda number: without(good(number), "brand"))
    assert not gone.row.suspect and all("brand" not in data for data in stored(engine).values())


def test_a_stopped_crawl_is_judged_by_a_tick_and_not_reported(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(40))
    crawl = Crawl(engine, shop(), range(40))
    crawl.settle(lambda number: without(good(number), "price"), pages=20)
    with engine.begin() as connection:
        assert crawls.stop_crawl(connection, crawl.id, "stopped by hand")
    assert crawl.row.judged_at is None
    judge_and_alert(engine)
    judge_and_alert(engine)
    assert crawl.row.suspect and crawl.why == {("price", "fill")} and stored(engine) == ALL
    assert making.rows(engine, "SELECT count(*) FROM alerts") == [(0,)]


def test_a_crawl_that_stalled_is_reported(engine: sa.Engine) -> None:
    crawl = Crawl(engine, shop(), range(4))
    with engine.begin() as connection:
        crawls.stop_crawl(connection, crawl.id, "nothing happened", CrawlStatus.FAILED)
    judge_and_alert(engine)
    assert making.rows(engine, "SELECT crawl_id FROM alerts") == [(crawl.id,)]


def test_a_crawl_whose_definition_is_no_longer_valid_ends_and_is_reported(
    engine: sa.Engine,
) -> None:
    crawl = Crawl(engine, shop(), range(2))
    with engine.begin() as connection:
        connection.execute(
            sa.text("""UPDATE crawls SET definition = '{"of": "another version"}'""")
        )
        crawls.stop_crawl(
            connection, crawl.id, "its site definition is no longer valid", CrawlStatus.FAILED
        )
    judge_and_alert(engine)
    assert crawl.row.judged_at is not None and not crawl.row.suspect
    assert making.rows(engine, "SELECT crawl_id FROM alerts") == [(crawl.id,)]
    with engine.connect() as connection:
        assert report.read_report(connection, crawl.id).fields == []


def test_the_examples_of_a_report_are_the_values_that_wait(engine: sa.Engine) -> None:
    """Not the ordinary changes of the same field."""

    def spoilt(n: int) -> Data:
        price = good(n)["price"]
        return good(n, price=price * 100 if n >= 56 else price + 1 if n < 6 else price)

    for _ in range(2):
        crawled(engine, shop(), range(60))
    crawl = crawled(engine, shop(), range(60), spoilt)
    with engine.connect() as connection:
        examples = report.read_report(connection, crawl.id).examples["price"]
    assert {int(one["url"].rpartition("/")[2]) for one in examples} <= set(range(56, 60))


def test_the_report_names_what_is_broken_and_where_the_value_is_now(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(20))
    crawl = crawled(engine, shop(), range(20), lambda number: without(good(number), "price"))
    with engine.connect() as connection:
        found = report.read_report(connection, crawl.id)
        assert report.newest_crawl(connection, "shop") == crawl.id
    assert found.selector("price") == "css '.p'"
    examples = found.examples["price"]
    assert len(examples) == 3 and set(found.examples) == {"price"}
    for one in examples:
        assert (
            one["url"].startswith(f"https://{HOST}/p/")
            and one["known"] in one["excerpt"]
            and one["known"].endswith(".90")
        )
    shown = report.as_json(found)
    price = next(one for one in shown["fields"] if one["field"] == "price")
    assert (price["fill"], price["usual_fill"], price["breach"], price["selector"]) == (
        0.0,
        1.0,
        "fill",
        "css '.p'",
    )
    assert price["examples"] == examples and shown["suspect"] and shown["products"] == 20


def test_a_replay_is_not_judged_and_not_usual(engine: sa.Engine) -> None:
    crawled(engine, shop(), range(30))
    crawl = Crawl(engine, shop(), range(30))
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE crawls SET trigger = 'replay' WHERE id = :id"), {"id": crawl.id}
        )
    crawl.settle(lambda number: without(good(number), "price"))
    crawl.end()
    assert not crawl.row.suspect and crawl.fields["price"].breach == "fill"
    assert stored(engine)["3"] == good(3), "a replay empties nothing either"
    assert making.rows(engine, "SELECT count(*) FROM alerts") == [(0,)]
    assert crawled(engine, shop(), range(30)).fields["price"].usual_fill == 1.0


@pytest.mark.usefixtures("environment")
def test_the_report_ends_as_its_crawl_did(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        import_module("scraper.plugins.report.command"), "open_engine", lambda: engine
    )
    crawl = crawled(engine, shop(), range(30))

    def reported(code: int) -> str:
        done = CliRunner().invoke(main, ["report", str(crawl.id)])
        assert done.exit_code == code, done.output
        return done.stdout

    assert "nothing to compare with yet" in reported(0)
    first, crawl = (
        crawl,
        crawled(
            engine, shop(), range(30), lambda n: good(n, price=Decimal(9000)) if n == 3 else good(n)
        ),
    )
    shown = reported(0)
    assert "price: 1 values: 8 times the price or more, or an eighth or less" in shown
    assert "https://shop.example/p/3: '9000 EUR' (the product has '3.90 EUR')" in shown
    crawl = first
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET status = 'failed', note = 'stalled'"))
    told = reported(4)
    assert "not to be trusted" in told and "note: stalled" in told and "\tok" not in told
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE crawls SET suspect = true"))
    assert "SUSPECT" in reported(5)
