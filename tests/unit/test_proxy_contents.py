"""What pages contain by one proxy and by others: who is to blame, and what is believed."""

from __future__ import annotations

import random

from scraper.proxies.contents import (
    LACKED_LEAST,
    LOOKS_MAX,
    OTHERS_LEAST,
    PAGES_BARREN,
    PROXIES_BARREN,
    Contents,
)

SHOP = "shop.example", "product"


def test_a_proxy_that_lacks_what_others_have_is_to_blame_and_then_begins_anew() -> None:
    contents = Contents()
    for _ in range(OTHERS_LEAST):
        contents.gave(SHOP, "good")
    for number in range(LACKED_LEAST):
        assert not contents.to_blame(SHOP, "liar"), number
        contents.lacked(SHOP, "liar")
    assert contents.to_blame(SHOP, "liar")
    assert not contents.to_blame(SHOP, "good")
    assert not contents.to_blame(("shop.example", "listing"), "liar")
    contents.forget(SHOP, "liar")
    assert not contents.to_blame(SHOP, "liar")


def test_one_that_lies_now_and_then_is_found_out() -> None:
    contents, rng = Contents(), random.Random(7)
    for _ in range(300):
        for name in ("first", "second", "third"):
            contents.gave(SHOP, name)
        (contents.lacked if rng.random() < 0.2 else contents.gave)(SHOP, "liar")
        if contents.to_blame(SHOP, "liar"):
            return
    raise AssertionError("it was never found out")


def test_in_a_shop_that_lacks_a_field_on_many_pages_nobody_is_to_blame() -> None:
    for share in (0.05, 0.3, 0.8):
        contents, rng, blamed = Contents(), random.Random(3), 0
        for _ in range(2000):
            name = rng.choice(("first", "second", "third", "fourth"))
            if rng.random() < share:
                contents.lacked(SHOP, name)
                blamed += contents.to_blame(SHOP, name)
            else:
                contents.gave(SHOP, name)
        assert blamed <= 2, share


def test_a_second_look_by_a_proxy_with_good_pages_is_believed_and_one_by_another_not_yet() -> None:
    contents = Contents()
    contents.gave(SHOP, "good")
    contents.lacked(SHOP, "liar")
    assert not contents.believed(SHOP, "good", 1)
    assert contents.believed(SHOP, "good", 2)
    assert not contents.believed(SHOP, "liar", 2)
    assert contents.believed(SHOP, "liar", LOOKS_MAX)


def test_where_no_proxy_has_a_good_page_the_shop_is_believed_at_the_second_look() -> None:
    several, alone = Contents(), Contents()
    for number in range(PROXIES_BARREN):
        assert not several.believed(SHOP, "0", 2)
        several.lacked(SHOP, str(number))
    assert several.believed(SHOP, "0", 2)
    for _ in range(PAGES_BARREN):
        assert not alone.believed(SHOP, "0", 2)
        alone.lacked(SHOP, "0")
    assert alone.believed(SHOP, "0", 2)


def test_a_body_is_another_pages_where_that_came_through_the_same_proxy() -> None:
    contents = Contents()
    assert not contents.repeats("first", 1, b"<h1>Tea</h1>")
    assert not contents.repeats("first", 1, b"<h1>Tea</h1>")
    assert not contents.repeats("second", 2, b"<h1>Tea</h1>")
    assert contents.repeats("first", 2, b"<h1>Tea</h1>")
