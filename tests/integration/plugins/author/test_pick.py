"""`scraper sites pick`: sources of a field from an element of a recorded page, proved on all of
them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scraper.cli.main import main
from scraper.domain import Fetched, Kind
from scraper.errors import ConfigError, NotFoundError
from scraper.plugins.author.repair.record_files import save_records
from scraper.plugins.author.repair.records import make_records
from scraper.plugins.setup import picking
from scraper.plugins.setup.picking import pick
from scraper.settings import Settings
from scraper.sites.loader import load_file, load_text
from tests.support.hostile_pages import HOSTILE
from tests.support.machine import everyday
from tests.support.shops.shop_templates import TEMPLATES
from tests.support.shops.static_shop import StaticShop

pytestmark = pytest.mark.slow

TEXT = """name: shop
start: https://shop.example/
listing: {products: a}
product:
  id: {url: '/p/(.+)'}
  fields:
    title: {css: h1, required: true}   # its name
    price: {css: .old, type: price, currency: GBP}
    size: {css: .none, regex: '(\\d+) cm', type: int}
"""
PAGE = """<title>x</title><body><h1>Kettle {n}</h1><div class=buy><b>{n}.50</b> <i>was 99</i></div>
<p>Weight: {n} kg</p><dl><dt>Made of</dt><dd>oak {n}</dd></dl><p>{n} cm</p>"""


@pytest.fixture
def shop(project: Path) -> Path:
    file = project / "sites/shop.yaml"
    file.write_text(TEXT)
    save_pages(file, [PAGE.format(n=number) for number in range(1, 7)])
    return file


def save_pages(file: Path, bodies: list[str]) -> None:
    pages = [
        (url, Kind.PRODUCT, Fetched(url, 200, {"content-type": "text/html"}, body.encode()))
        for number, body in enumerate(bodies, 1)
        for url in [f"https://shop.example/p/{number}"]
    ]
    save_records(file, make_records(load_file(file), Settings(), pages))


def picked(*words: str) -> Any:
    ran = CliRunner().invoke(main, ["sites", "pick", "shop", *words])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.output)


def number_of(text: str) -> str:
    """The number of the element on page 2 that shows a text."""
    last = 0
    for _, shown, *number in picked("2")["elements"]:
        if number:
            last = number[0]
        elif shown == text:
            return str(last)
    raise AssertionError(text)


@pytest.mark.parametrize(
    ("text", "field", "css", "values"),
    [
        ("2.50", "price", ".buy > b", "{n}.5 GBP"),
        ("Kettle 2", "brand", "h1", "Kettle {n}"),
        ("Weight: 2 kg", "weight", 'p:contains("Weight")', "{n} kg"),
        ("oak 2", "material", 'dt:contains("Made of") + dd', "oak {n}"),
        ("2 cm", "size", "p:nth-child", "{n}"),
    ],
)
def test_an_element_becomes_a_source_that_reads_every_page(
    shop: Path, text: str, field: str, css: str, values: str
) -> None:
    proposals = picked("2", number_of(text), field)["proposals"]
    wanted = [values.format(n=number) for number in range(1, 7)]
    (chosen,) = [row for row in proposals if row["values"] == wanted]
    assert chosen["pages"] == 6 and css in chosen["source"]
    site = load_text(chosen["text"], shop)
    assert css in str(site.product.fields[field].css)
    # All else is as it was, comments too.
    before = [line for line in TEXT.splitlines() if f" {field}:" not in line]
    assert [line for line in chosen["text"].splitlines() if f" {field}:" not in line] == before
    shop.write_text(chosen["text"])
    assert [row["values"][field] for row in picked()["pages"]] == wanted


def test_what_cannot_be_read_is_said(shop: Path) -> None:
    for words, sentence in (
        (("2", number_of("Made of"), "price"), "no selector reads this element as price"),
        (("2", "5000", "price"), "the page has no element 5000"),
        (("7",), "6 recorded product pages, and no page 7"),
    ):
        ran = CliRunner().invoke(main, ["sites", "pick", "shop", *words])
        assert ran.exit_code in (1, 2) and sentence in ran.output, ran.output


def test_new_keeps_its_pages_if_it_is_asked_to(project: Path) -> None:
    with StaticShop(TEMPLATES["workshop"]().pages) as server:
        words = ["new", f"{server.url}/all", "shop", "--record", "--rate", "1000/s"]
        ran = CliRunner().invoke(main, words)
    assert ran.exit_code == 0, ran.output
    rows = picked()["pages"]
    assert len(rows) == 12 and all(row["stored"] for row in rows)
    assert CliRunner().invoke(main, ["sites", "test", "shop"]).exit_code == 0


def answer_of(text: str, pages: Path, words: list[str]) -> dict[str, Any]:
    """As the tab asks: again, until the answer is there."""
    while (answer := pick("shop", text, pages, words)).get("busy"):
        pass
    return answer


@pytest.mark.parametrize(
    "name", everyday(("attributes", "lists within lists", "memory", "depth"), "depth")
)
def test_a_page_made_to_be_slow_holds_up_the_tab_for_seconds_at_most(
    project: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered with a page, or with why not; and the next question is answered."""
    file = project / "sites/shop.yaml"
    file.write_text(TEXT)
    save_pages(file, [PAGE.format(n=1), PAGE.format(n=2)])
    pages = file.with_suffix(".pages")
    (pages / "002.gz").write_bytes(gzip.compress(HOSTILE[name][1]()))
    for words in (["2"], ["2", "1", "price"], ["1"]):
        with monkeypatch.context() as patched:
            # Only the slow page has little time: a busy machine may need long for the other one.
            if words != ["1"]:
                patched.setattr(picking, "DEADLINE_S", 2.0)
            try:
                found = answer_of(TEXT, pages, words)
            except ConfigError as error:
                assert words != ["1"], error
            else:
                assert found["url" if len(words) == 1 else "proposals"]


def test_a_slow_search_is_waited_for_and_others_after_it(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(picking, "WAIT_S", 0.0)
    pages = shop.with_suffix(".pages")
    assert pick("shop", TEXT, pages, [])["busy"] and pick("shop", TEXT, pages, ["1"])["busy"]
    assert len(answer_of(TEXT, pages, [])["pages"]) == 6
    assert answer_of(TEXT, pages, ["1"])["url"]
    assert not picking._searches


def test_the_tab_learns_why_nothing_is_read(shop: Path) -> None:
    pages = shop.with_suffix(".pages")
    assert len(answer_of(TEXT, pages, [])["pages"]) == 6
    with pytest.raises(NotFoundError, match="no longer kept"):
        pick("shop", TEXT, shop.with_name("away"), ["1"])
    with pytest.raises(ConfigError, match="^shop.yaml:1: nmae: unknown key"):
        answer_of(f"nmae: x\n{TEXT}", pages, [])
