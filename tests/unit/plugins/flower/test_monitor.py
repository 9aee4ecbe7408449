"""The Crawls tab's pure parts: Flower's navigation with one more item, what a replay means, what is
served as a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import flower
import pytest

from scraper.domain import Outcome
from scraper.plugins.flower import view
from scraper.plugins.flower.actions import ACTIONS, BadRequestError, pages_to_replay
from scraper.plugins.flower.handlers.assets import ASSETS, FOLDER
from scraper.plugins.flower.handlers.base import HEADERS
from scraper.plugins.flower.tab import ICON, ITEM, NAME, add_tab, rename_flower, replace_links

NAVIGATION = (Path(flower.__file__).parent / "templates" / "navbar.html").read_text()


def test_the_tab_is_the_first_in_flowers_own_navigation() -> None:
    changed = add_tab(NAVIGATION)
    assert changed.replace(ITEM, "") == NAVIGATION != changed
    assert re.findall(r">(\w+)</a>", changed)[:4] == ["Crawls", "Workers", "Tasks", "Broker"]


def test_a_navigation_that_is_unknown_stays_as_it_is() -> None:
    assert add_tab("<nav>new</nav>") == "<nav>new</nav>"


def test_name_icon_and_links_are_our_own() -> None:
    base = (Path(flower.__file__).parent / "templates" / "base.html").read_text()
    for page in (base, NAVIGATION):
        own = rename_flower(page)
        assert ICON in own and "favicon" not in own and NAME in own
        assert not re.search(r">Flower<|%}Flower{%", own)
    for file in (Path(flower.__file__).parent / "templates").glob("*.html"):
        title = re.search(r"\{% block title %\}.*", rename_flower(file.read_text()))
        assert title is None or "Flower" not in title[0], file
    for docs in ("", 'https://docs.example/?a=1&b="2"'):
        own = replace_links(NAVIGATION, docs)
        links = ["https://docs.example/?a=1&amp;b=&quot;2&quot;"] if docs else []
        assert re.findall(r'href="(https?:[^"]*)"', own) == links
        assert own.count("<li") == own.count("</li>") and own.count("theme-option") == 3
        assert "reverse_url('logout')" in own and own.count("<ul") == own.count("</ul>")


@pytest.mark.parametrize("name", ASSETS)
def test_a_file_needs_nothing_from_elsewhere(name: str) -> None:
    text = (FOLDER / "assets" / name).read_text()
    # A name and a comment, which the client does not ask for.
    without = text
    for name_only in ("http://www.w3.org/2000/svg", "https://github.com/leeoniya/uPlot"):
        without = without.replace(name_only, "")
    assert not re.search(r"https?://[a-z]|@import|url\(", without)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", text
    )


@pytest.mark.parametrize(
    "path", sorted((FOLDER / "templates").glob("*.html")), ids=lambda path: path.name
)
def test_a_page_has_no_script_or_style_of_its_own(path: Path) -> None:
    text = path.read_text()
    assert not re.search(
        r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|\{% raw|autoescape|https?://", text
    )


def test_the_policy_lets_nothing_in_from_elsewhere_and_forbids_frames() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy


def test_a_replay_is_of_one_page_or_one_reason_or_all() -> None:
    assert pages_to_replay({}) == (None, None)
    assert pages_to_replay({"page": 3}) == (3, None)
    assert pages_to_replay({"reason": "timeout"}) == (None, "timeout")


WRONG: list[dict[str, Any]] = [
    {"page": "3"}, {"page": True}, {"page": [3]}, {"reason": "bad luck"}, {"reason": 1}, {"page": 3, "reason": "timeout"},
    {"pages": 3},
]  # fmt: skip


@pytest.mark.parametrize("wish", WRONG, ids=str)
def test_a_wish_that_makes_no_sense_is_refused(wish: dict[str, Any]) -> None:
    with pytest.raises(BadRequestError):
        pages_to_replay(wish)


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_says_whom_it_blames(outcome: Outcome) -> None:
    assert view._outcome_meaning(outcome.value) == {
        "phrase": outcome.phrase,
        "blame": outcome.blame.value,
    }


@pytest.mark.parametrize("outcome", [None, "of another version"])
def test_an_unknown_outcome_has_no_blame(outcome: str | None) -> None:
    assert view._outcome_meaning(outcome) == {"phrase": outcome or "", "blame": "nobody"}


def test_every_action_has_its_button() -> None:
    script = (FOLDER / "assets" / "crawls.js").read_text()
    assert set(re.findall(r'button\([^"]*?(?:"|`)[^"`]*(?:"|`), "(\w+)"', script)) == set(ACTIONS)
