"""What the benchmark of growth says of its figures, and the frontiers it inserts."""

from __future__ import annotations

import pytest

from benchmarks import frontiers, growth_table, memory, recrawls, steps
from benchmarks.growth_table import Size, quantile
from benchmarks.memory import Sample
from benchmarks.sizes import TableSize
from benchmarks.steps import Meter
from scraper.domain import Kind
from scraper.settle import products

WIDTH = 100


def table_size(name: str, table_bytes: int = 1000, index_bytes: int = 500) -> TableSize:
    return TableSize(name, table_bytes, index_bytes, 10, 5, 20, 10, 1)


def size(pages: int, ms: float, postgres_s: float) -> Size:
    meter = Meter(pages=1000, broker_bytes=[1_000_000, 1_200_000])
    for step in (*growth_table.STEPS, "finish"):
        meter.walls[step] = [ms / 1e3] * 20
    meter.postgres_s["settle"] = postgres_s
    tables = {name: table_size(name, 200 * pages, 100 * pages) for name in ("pages", "products")}
    return Size(pages, pages // 50, meter, tables, 5_000_000)


def test_a_row_says_how_much_more_and_marks_what_is_not_flat() -> None:
    said = growth_table.table(
        [size(10_000, 10, 0.2), size(1_000_000, 12, 0.3), size(5_000_000, 14, 0.2)]
    ).splitlines()
    assert said[0].split()[-3:] == ["10,000", "1,000,000", "5,000,000"]
    rows = {line[:30].strip(): line[30:].split() for line in said[1:-1]}
    assert rows["dispatch, median, ms"] == ["10.0", "12.0", "x1.20", "14.0", "x1.40!"]
    assert rows["CPU of PostgreSQL a page, us"] == ["200", "300", "x1.50!", "200", "x1.00"]
    assert rows["pages: indexes, a page, B"] == ["100", "100", "x1.00", "100", "x1.00"]
    assert max(map(len, said[:-1])) <= WIDTH


@pytest.mark.parametrize(("share", "value"), [(0.5, 50.5), (0.95, 95), (1.0, 100)])
def test_quantiles(share: float, value: float) -> None:
    assert quantile([float(number) for number in range(100, 0, -1)], share) == value
    assert quantile([], share) == 0.0


def test_a_site_that_is_crawled_again_grows_by_so_much() -> None:
    def crawl(table_bytes: int) -> recrawls.Crawl:
        tables = {name: table_size(name, table_bytes) for name in ("pages", "products")}
        return recrawls.Crawl(
            30_000, 9.0, 20.0, 40.0, 15.0, 100.0, 200.0, 300.0, 2500.0, tables, {}
        )

    said = recrawls.table([crawl(1500), crawl(1500), crawl(2500)]).splitlines()
    assert (
        said[-1]
        == "From the second crawl to the last, tables with indexes: pages x1.50, products x1.50."
    )
    assert len(said) == 2 + 3 + 1
    assert max(map(len, said)) <= 120


def sample(pages: int, rss_mb: float) -> Sample:
    return Sample(
        pages,
        pages / 500,
        rss_mb,
        rss_mb,
        pages / 1e3,
        0,
        0,
        0,
        pages // 2,
        10**6,
        pages // 100,
        pages * 3000,
        1,
    )


def test_memory_is_flat_or_has_grown() -> None:
    warm = [sample(0, 90), *(sample(5000 * n, 150) for n in range(1, 9))]
    assert memory.grown_mb(warm) == 0 and "flat" in memory.table(warm)
    leaking = [sample(0, 90), *(sample(5000 * n, 100 + 10 * n) for n in range(1, 9))]
    assert memory.grown_mb(leaking) == 40 and "+40.0 MB, grown" in memory.table(leaking)
    assert "1000 us CPU of the worker" in memory.table(warm)
    assert (
        "0.50 commands to Valkey, 0.0100 messages, 3,000 B of WAL; 500 pages a second"
        in memory.table(warm)
    )


def test_what_a_crawl_finds_next_follows_what_it_has_found() -> None:
    site = frontiers.Filled(1, "shop00", 2, 200, whole=False)
    assert (frontiers.settled(200), frontiers.reached(200)) == (20, 60)
    assert list(site.listings()) == [75, 100, 125, 150, 175]
    found = list(site.unreached())
    assert found == sorted(found) and found[0] == 60 and 0.6 < len(found) / 200 < 0.7
    assert not set(found) & set(site.listings())
    assert frontiers.url_of(site.host(7), Kind.PRODUCT, 7) == "https://shop00-1.example/p/7"


def test_products_are_written_as_by_a_crawl_a_day_later() -> None:
    usual = str(products.UPSERT)
    assert str(steps.DAILY_UPSERT) != usual
    with steps.daily():
        assert products.UPSERT is steps.DAILY_UPSERT
    assert str(products.UPSERT) == usual
