"""Keys choose what the live status shows."""

from __future__ import annotations

from scraper.cli.crawl.screen import SORTS, Choice
from scraper.plugins.watch.keyboard import press_keys


def test_keys_turn_pages() -> None:
    choice = Choice(shown=20)
    for first in (20, 40, 60):
        assert press_keys(choice, "n") and choice.first == first
    for first in (40, 20, 0, 0):
        assert press_keys(choice, "\x1b[5~") and choice.first == first
    assert press_keys(choice, "\x1b[6~\x1b[Bn\x1b[A") and choice.first == 40


def test_keys_sort_and_search() -> None:
    choice = Choice()
    for sort in (*SORTS[1:], "worst"):
        press_keys(choice, "s")
        assert choice.sort == sort
    press_keys(choice, "/SHOP-4q")
    assert choice.typing and choice.search == "SHOP-4q"
    press_keys(choice, "\x7f")
    press_keys(choice, "\r")
    assert not choice.typing and choice.search == "SHOP-4"
    choice.first = 3
    press_keys(choice, "\x1b[6~")
    assert choice.search == "SHOP-4"
    press_keys(choice, "\x1b")
    assert choice.search == "" and choice.first == 0
    assert press_keys(choice, "") and not press_keys(choice, "q")


def test_a_search_finds_sites_and_a_new_one_begins_at_the_first() -> None:
    choice = Choice(first=40)
    press_keys(choice, "/x")
    assert choice.first == 0 and choice.search == "x"
