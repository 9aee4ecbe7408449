"""What is noted of a product page: which fields it had, which had something else, and where to look
for the others."""

from __future__ import annotations

from scraper.crawl.context import make_context
from scraper.domain import Extracted, FieldObservations, Kind, LeasedPage
from scraper.results.excerpts import READ_BYTES
from scraper.settings import Settings
from scraper.sites.loader import load_text
from scraper.worker.observations import FieldObserver
from tests.unit.extract.extracting import fetched, product

FIELDS = (
    "t: {css: h1, required: true}, price: {css: .p, type: price}, n: {css: .n, type: int, default: 0}, "
    "s: {css: .s, type: bool, when: yes}"
)
FULL = "<h1>T</h1><b class=p>1 €</b><i class=n>3</i><u class=s>no</u>"
DEFINITION = (
    f"start: https://shop.example/\nlisting: {{products: a}}\nproduct: {{fields: {{{FIELDS}}}}}\n"
)


def page(number: int = 1, kind: Kind = Kind.PRODUCT) -> LeasedPage:
    return LeasedPage(number, 7, f"https://shop.example/{number}", kind, "shop.example", 0, 0, 1, 5)


def read(
    readings: FieldObserver,
    extracted: Extracted,
    number: int = 1,
    kind: Kind = Kind.PRODUCT,
    body: str | bytes = "<body><h1>a page</h1>",
) -> FieldObservations | None:
    context = make_context(7, 1, load_text(DEFINITION, "shop.yaml"), Settings())
    return readings.observe_page(page(number, kind), fetched(body), extracted, context)


def test_what_was_found_is_what_the_page_itself_said() -> None:
    assert product(FIELDS, FULL).found == ("t", "price", "n", "s")
    less = product(FIELDS, "<h1>T</h1>")
    assert less.found == ("t",) and less.mistyped == () and less.complete
    assert less.products[0].data == {"t": "T", "n": 0, "s": False}, (
        "a default and a false are not found"
    )


def test_a_misread_value_is_distinguished_from_a_missing_one() -> None:
    wrong = product(FIELDS, "<h1>T</h1><b class=p>ask us</b><i class=n>many</i>")
    assert wrong.found == ("t",) and wrong.mistyped == ("price", "n")
    repaired = product(
        "x: {type: price, any: [.old, .new]}, t: h1",
        "<h1>T</h1><b class=old>ask</b><b class=new>5 €</b>",
    )
    assert repaired.found == ("x", "t") and repaired.mistyped == ()


def test_a_page_without_a_required_field_is_read_all_the_same() -> None:
    incomplete = product(FIELDS, "<b class=p>1 €</b>")
    assert not incomplete.complete and incomplete.found == ("price",)
    reading = read(FieldObserver(), incomplete)
    assert reading is not None and (reading.records, reading.found) == (1, ("price",))
    assert {one.field for one in reading.examples} == {"t", "n", "s"}
    shown = next(one for one in reading.examples if one.field == "t")
    assert shown.problem == "nothing matched css 'h1'" and shown.excerpt == "<h1>a page</h1>"
    assert shown.url == "https://shop.example/1"


def test_an_example_is_decoded_as_its_page_is_and_knows_whether_the_page_was_cut() -> None:
    lacking = product(FIELDS, "<h1>T</h1><i class=n>3</i><u class=s>no</u>")
    bodies = ["<p>Marke: Müller".encode("cp1252"), f"<script>{'x' * READ_BYTES}</script>".encode()]
    readings = [read(FieldObserver(), lacking, body=body) for body in bodies]
    shown = [(row.excerpt, row.cut) for reading in readings if reading for row in reading.examples]
    assert shown == [("<p>Marke: Müller", False), ("", True)]


def test_a_full_page_has_no_examples_and_a_page_with_only_links_no_record() -> None:
    full = read(FieldObserver(), product(FIELDS, FULL))
    assert full is not None and full.examples == ()
    assert read(FieldObserver(), Extracted(), kind=Kind.LISTING) is None


def test_examples_grow_with_the_logarithm_of_the_pages() -> None:
    readings = FieldObserver()
    less = product(FIELDS, "<h1>T</h1><i class=n>3</i><u class=s>no</u>")
    shown = [
        number
        for number in range(1, 101)
        if (found := read(readings, less, number)) and found.examples
    ]
    assert shown == [1, 2, 3, 4, 8, 16, 32, 64]
