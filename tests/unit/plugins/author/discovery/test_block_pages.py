"""Pages that look like a captcha or a block, and pages of shops that do not."""

from __future__ import annotations

import pytest

from scraper.plugins.author.discovery.block_pages import explain_captcha, explain_same_pages
from scraper.plugins.author.discovery.trial import try_listing, try_product
from scraper.quality.block_pages import explain_examples
from scraper.sites.loader import load_text
from tests.unit.extract.extracting import URL, fetched

WIDGETS = (
    '<div class="g-recaptcha" data-sitekey="x"></div>',
    '<div class="box h-captcha" data-sitekey="x"></div>',
    "<div class='cf-turnstile'></div>",
    '<script src="https://static.geetest.com/v4/gt4.js"></script>',
    '<script src="https://shop-api.arkoselabs.com/v2/api.js"></script>',
    '<img src="/securimage/captcha.php?9">',
)
SITE = load_text(
    "start: https://shop.example/\nlisting: {products: .card a}\n"
    "product: {fields: {title: h1, price: {css: .price, type: price, required: true}}}",
    "shop.yaml",
)
LINKS = "".join(f'<a href="/{n}">{n}</a>' for n in range(21))


@pytest.mark.parametrize("widget", WIDGETS)
def test_a_page_with_a_widget_and_hardly_anything_else_looks_like_a_captcha(widget: str) -> None:
    page = fetched(f"<title>Wait</title><p>One more step</p>{widget}")
    (problem,) = try_product(SITE, page, URL, ()).problems
    assert problem.startswith("looks like a captcha: ") and "blocked-pages.md" in problem
    assert try_listing(SITE, page, URL, ()).problems == (problem,)


def test_a_page_that_gives_its_product_may_have_a_widget() -> None:
    page = fetched(f"<h1>Tea</h1><b class=price>9 EUR</b>{WIDGETS[0]}")
    trial = try_product(SITE, page, URL, ())
    assert trial.complete and trial.problems == ()


@pytest.mark.parametrize("body", [f"{LINKS}{WIDGETS[0]}", "<h1>Tea</h1><p>captcha</p>"])
def test_what_a_shop_shows_is_not_taken_for_a_captcha(body: str) -> None:
    assert explain_captcha(fetched(body)) == ""
    problems = try_product(SITE, fetched(body), URL, ()).fields[1].problems
    assert "nothing matched css '.price'" in problems[0]


@pytest.mark.parametrize(
    ("bodies", "says"),
    [
        (["<title>Access check</title>"] * 4 + ["<title>Tea</title>"], "title 'Access check'"),
        ([f"<p>{'x' * 999}{n}" for n in range(5)], "the same size, 1,003 bytes,"),
        (["<title>Access check</title>"] * 2, ""),
        ([f"<title>Tea {n}</title>" for n in range(5)], ""),
        (["<title>Shop</title>" + LINKS] * 5, ""),
        ([f"<p>{'x' * 99 * n}" for n in range(1, 6)], ""),
        ([], ""),
    ],
)
def test_one_page_at_most_addresses_looks_like_a_block(bodies: list[str], says: str) -> None:
    found = explain_same_pages([fetched(body) for body in bodies])
    assert (says in found and "fix: " in found) if says else found == ""


def test_examples_without_an_excerpt_do_not_look_alike() -> None:
    """Values that changed have none."""
    assert explain_examples({"description": ["", "", ""]}) == ""
    assert "3 of 3 pages say the same" in explain_examples({"price": ["Wait a moment"] * 3})


@pytest.mark.timeout(60)
def test_titles_that_never_close_are_read_once() -> None:
    """Each of them was read to the page's end: an hour for these pages."""
    bodies = ["<title " * 200_000, "<title>" * 200_000, "<title " + "a" * 2_000_000]
    for body in bodies:
        assert "title" not in explain_same_pages([fetched(body)] * 5)
