"""A product whose page shows little is a product: it is stored, and its page's error says what it
lacks. A page that says what another product's page says is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from scraper.coordinator import plan
from scraper.domain import Message
from scraper.frontier import sites
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.worker.process import Worker
from tests.acceptance.lies.harness import broker_of
from tests.support.making import rows
from tests.support.shops.odd_shop import OddShop, listing

FIELDS = ("title", "price", "brand", "sku", "category", "colour", "size", "weight", "text")
POOR = ("title", "brand", "sku", "category")


def page(number: int, shown: tuple[str, ...] = FIELDS, **own: str) -> bytes:
    values = (
        {name: f"{name.title()} {number}" for name in FIELDS} | {"price": f"€{number}.99"} | own
    )
    inside = "".join(f'<p class="{name}">{values[name]}</p>' for name in shown)
    return f"<html><body><main>{inside}</main></body></html>".encode()


@pytest.fixture
def shop(engine: sa.Engine) -> Iterator[OddShop]:
    with OddShop() as server:
        fields = {name: {"css": f".{name}"} for name in FIELDS}
        fields["price"]["type"] = "price"
        definition = {
            "name": "poor",
            "start": server.url("/"),
            "allow_private": True,
            "rate": "unlimited",
            "concurrency": 1,
            "listing": {"products": "a.p"},
            "product": {
                "id": {"url": r"/p/(\d+)"},
                "fields": fields | {"title": {"css": ".title", "required": True}},
            },
        }
        with engine.begin() as connection:
            sites.store_definitions(connection, [Site.model_validate(definition)])
        server.serve("/", listing([f"/p/{number}" for number in range(1, 21)]))
        for number in range(1, 21):
            server.serve(f"/p/{number}", page(number))
        yield server


def crawl(engine: sa.Engine, settings: Settings) -> dict[str, list[str]]:
    """The fields of each product for sale after another crawl, by its id."""
    with broker_of(engine, settings) as broker:
        broker.send(plan.open_now(engine, "poor", refetch=True).messages)
        broker.run()
    stored = rows(engine, "SELECT external_id, data FROM products WHERE delisted_at IS NULL")
    return {key: sorted(data) for key, data in stored}


def test_a_product_with_few_fields_is_stored_by_the_first_crawl(
    engine: sa.Engine, environment: Settings, shop: OddShop
) -> None:
    shop.serve("/p/20", page(20, POOR))
    stored = crawl(engine, environment)
    assert len(stored) == 20
    assert stored["20"] == sorted(POOR)


def test_another_process_may_read_it_the_second_time(
    engine: sa.Engine, environment: Settings, shop: OddShop
) -> None:
    crawl(engine, environment)
    shop.serve("/p/20", page(20, POOR))
    shop.serve("/p/19", lambda tries: page(19, POOR, title=f"Request {tries}"))
    with broker_of(engine, environment) as broker:
        handle, workers = broker.handle, [broker.worker]

        def handle_elsewhere(message: Message) -> None:
            workers.append(Worker(environment, broker.send, engine))
            broker.worker = workers[-1]
            handle(message)

        broker.handle = handle_elsewhere  # type: ignore[method-assign]
        broker.send(plan.open_now(engine, "poor", refetch=True).messages)
        broker.run()
        for worker in workers[:-1]:
            worker.close()
    assert shop.asked().count("/p/20") == 3
    states = (
        "SELECT status, doubted_hash IS NOT NULL FROM pages WHERE url ~ '/p/(19|20)$' ORDER BY url"
    )
    assert rows(engine, states) == [("invalid", True), ("ok", False)]


def test_the_error_of_a_page_names_what_it_lacks(
    engine: sa.Engine, environment: Settings, shop: OddShop
) -> None:
    crawl(engine, environment)
    shop.serve("/p/20", page(20, POOR))
    crawl(engine, environment)
    ((status, error),) = rows(engine, "SELECT status, error FROM pages WHERE url LIKE '%/p/20'")
    assert (status, error) == (
        "ok",
        "4 of its 9 fields: without colour, price, size, text, weight",
    )


def test_a_new_product_with_few_fields_is_stored(
    engine: sa.Engine, environment: Settings, shop: OddShop
) -> None:
    crawl(engine, environment)
    shop.serve("/", listing([f"/p/{number}" for number in range(1, 22)]))
    shop.serve("/p/21", page(21, POOR))
    assert crawl(engine, environment)["21"] == sorted(POOR)


def test_pages_that_say_the_same_are_not_products(
    engine: sa.Engine, environment: Settings, shop: OddShop
) -> None:
    for number in (7, 9):
        shop.serve(f"/p/{number}", page(number, ("title", "brand"), title="Sorry", brand="Shop"))
    assert crawl(engine, environment).keys().isdisjoint({"7", "9"})


def test_a_page_that_says_something_else_when_it_is_asked_again_is_not_stored(
    engine: sa.Engine, environment: Settings, shop: OddShop
) -> None:
    crawl(engine, environment)
    shop.serve("/p/20", lambda tries: page(20, POOR, title=f"Request {tries}"))
    crawl(engine, environment)
    query = "SELECT status, last_outcome FROM pages WHERE url LIKE '%/p/20'"
    assert rows(engine, query) == [("invalid", "doubtful")]
