"""Exports of all sites in one file, workbooks, and CSV for spreadsheets with a decimal comma."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from lxml import etree

from scraper.cli.data import export as exporting
from scraper.errors import ConfigError, NotFoundError
from scraper.plugins.xlsx import writer
from scraper.views.rows import Table
from tests.support.hidden_module import hide_module
from tests.support.making import a_site
from tests.support.shops.crawled_shop import A, B, Shop

URL = "https://shop.example/p"
NAMESPACES = {"m": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}
FORMULAS = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "  =1+1",
    "\t=1+1",
    "＝1+1",
    '=HYPERLINK("http://x.example")',
)


@pytest.fixture
def two_shops(engine: sa.Engine) -> None:
    shop = Shop(engine)
    fields = {"title": "h1", "price": {"css": "b", "type": "price"}}
    shop.site = a_site(product={"fields": fields}, revisit="0s")
    pages = shop.begin(A, B)
    shop.give(pages[A], "1", title="=1+1", price=Decimal("9.90"), price_currency="EUR")
    shop.give(
        pages[B], "2", title='B; "b"', price=Decimal("1234567890123456.78"), price_currency="EUR"
    )
    shop.end()
    with engine.begin() as connection:
        copies = (
            "INSERT INTO sites (name, definition, definition_hash) "
            "SELECT 'other', definition, definition_hash FROM sites",
            "INSERT INTO products (site_id, external_id, page_id, crawl_id, url, data, content_hash) "
            "SELECT (SELECT id FROM sites WHERE name = 'other'), external_id, page_id, crawl_id, url, "
            'CAST(\'{"title": "C", "site": "its own", "tags": [1]}\' AS jsonb), content_hash '
            "FROM products WHERE external_id = '1'",
        )
        for copy in copies:
            connection.execute(sa.text(copy))


def write(
    engine: sa.Engine, path: Path, site: str | None = None, **more: Any
) -> exporting.Exported:
    form = path.suffix.removeprefix(".")
    return exporting.write_export(engine, site, form, str(path), **{"delisted": False, **more})


def read_sheets(file: Path | io.BytesIO) -> dict[str, list[list[Any]]]:
    """The cells of each sheet; a formula would be an element `f`, a link a relationship."""
    with ZipFile(file) as book:
        names = etree.fromstring(book.read("xl/workbook.xml")).xpath(
            "//m:sheet/@name", namespaces=NAMESPACES
        )
        assert not [name for name in book.namelist() if "_rels/sheet" in name], "no links"
        return {
            name: [list(read_row(row)) for row in read_rows(book, number)]
            for number, name in enumerate(names, 1)
        }


def read_rows(book: ZipFile, number: int) -> list[Any]:
    sheet = etree.fromstring(book.read(f"xl/worksheets/sheet{number}.xml"))
    assert not sheet.xpath("//m:f", namespaces=NAMESPACES), "no formula"
    return list(sheet.xpath("//m:row", namespaces=NAMESPACES))


def read_row(row: Any) -> Iterator[Any]:
    for cell in row.iterfind("m:c", NAMESPACES):
        text = "".join(cell.itertext())
        yield text if cell.get("t") == "inlineStr" else Decimal(text)


def test_a_sheet_for_each_site(engine: sa.Engine, two_shops: None, tmp_path: Path) -> None:
    done = write(engine, tmp_path / "all.xlsx")
    sheets = read_sheets(tmp_path / "all.xlsx")
    assert list(sheets) == ["other", "shop"] and done.products == 3 and done.site is None
    header, first, second = sheets["shop"]
    assert header[:5] == ["id", "url", "title", "price", "price_currency"]
    assert first[:5] == ["1", URL, "=1+1", Decimal("9.9"), "EUR"]
    assert second[:5] == ["2", URL, 'B; "b"', "1234567890123456.78", "EUR"], "no digit is lost"
    assert 45_000 < first[5] < 100_000, "a time is a number of days"
    assert "its own" in sheets["other"][1] and "[1]" in sheets["other"][1]


def test_one_site_is_one_sheet(engine: sa.Engine, two_shops: None, tmp_path: Path) -> None:
    write(engine, tmp_path / "shop.xlsx", "shop")
    assert list(read_sheets(tmp_path / "shop.xlsx")) == ["shop"]


def test_all_sites_in_one_file(engine: sa.Engine, two_shops: None, tmp_path: Path) -> None:
    done = write(engine, tmp_path / "all.csv", bom=True)
    with (tmp_path / "all.csv").open(encoding="utf-8-sig", newline="") as file:
        table = list(csv.DictReader(file))
    assert [(row["_site"], row["id"], row["site"]) for row in table] == [
        ("other", "1", "its own"),
        ("shop", "1", ""),
        ("shop", "2", ""),
    ]
    assert table[1]["title"] == "'=1+1"
    assert write(engine, tmp_path / "all.jsonl").cursor == done.cursor
    lines = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [row["_site"] for row in lines] == ["other", "shop", "shop"]
    assert len({tuple(row) for row in lines}) == 1, "each row has all columns"
    assert write(engine, tmp_path / "later.jsonl", since=done.cursor).products == 0


def test_a_decimal_comma(engine: sa.Engine, two_shops: None, tmp_path: Path) -> None:
    write(engine, tmp_path / "shop.csv", "shop", decimal_comma=True)
    with (tmp_path / "shop.csv").open(newline="") as file:
        table = list(csv.DictReader(file, delimiter=";"))
    assert [row["price"] for row in table] == ["9,90", "1234567890123456,78"]
    assert [row["title"] for row in table] == ["'=1+1", 'B; "b"']


def test_parquet_holds_one_site(engine: sa.Engine, two_shops: None, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a file for each SITE"):
        write(engine, tmp_path / "all.parquet")
    assert list(tmp_path.iterdir()) == []


def test_all_of_no_site(engine: sa.Engine, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no site is stored"):
        write(engine, tmp_path / "all.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [(), ("shop", "--all")])
def test_either_a_site_or_all(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(exporting.export, words)
    assert done.exit_code == 2 and "SITE, or --all" in done.output


def test_without_its_extra(
    engine: sa.Engine, two_shops: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_module(monkeypatch, "xlsxwriter")
    with pytest.raises(ConfigError, match=r"pip install 'celery-scraper\[xlsx\]'"):
        write(engine, tmp_path / "all.xlsx")
    assert list(tmp_path.iterdir()) == []


def book_of(*values: Any) -> list[Any]:
    file = io.BytesIO()
    writer.write_workbook({"a": Table(["x"], iter([{"x": value} for value in values]))}, file)
    return [cell for (cell,) in read_sheets(file)["a"][1:]]


def test_no_text_is_a_formula_or_a_link() -> None:
    texts = [*FORMULAS, "https://shop.example/", "mailto:a@b.example", "internal:Sheet1!A1", "{=1}"]
    assert book_of(*texts) == texts


def test_odd_values_stay_what_they_are() -> None:
    long = "x" * 40_000
    assert book_of(long, "a\x01b", Decimal("1E+400"), Decimal("0.1"), 2**60, [1, "b"], Decimal(0)) == [
        "x" * 32_766 + "…", "a_x0001_b", format(Decimal("1E+400"), "f"), Decimal("0.1"), str(2**60), '[1,"b"]', 0,
    ]  # fmt: skip


def test_more_rows_than_a_sheet_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ROWS_MAX", 4)
    file = io.BytesIO()
    table = Table(["x"], iter([{"x": number} for number in range(7)]))
    assert writer.write_workbook({"a": table}, file) == 7
    assert {name: len(cells) for name, cells in read_sheets(file).items()} == {
        "a": 4,
        "a (2)": 4,
        "a (3)": 2,
    }


def test_names_of_sheets() -> None:
    names: set[str] = set()
    sites = ["a/b", "A:B", "'quoted'", "History", "", "x" * 40, "x" * 41]
    assert [writer.sheet_name(site, names) for site in sites] == [
        "a_b", "A_B (2)", "_quoted_", "History_", "_", "x" * 31, "x" * 27 + " (2)",
    ]  # fmt: skip
