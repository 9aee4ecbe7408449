"""The screen of `scraper status` and `scraper watch`, at any size, whatever is on it."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from scraper.cli.common.tables import format_span
from scraper.cli.crawl.screen import (
    GAP,
    Choice,
    Column,
    fit_columns,
    fit_rows,
    make_screen,
)
from scraper.frontier.counters import Counts
from scraper.frontier.progress import CrawlProgress
from scraper.views.dashboard import FleetStatus, WorkerState
from scraper.views.host_states import HostState
from scraper.views.queue_stats import PageTrouble, QueueState, Unusable
from scraper.views.site_table import Totals

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)
LONG = "a-shop-with-quite-a-long-name-that-somebody-chose"


def a_crawl(
    number: int, status: str = "running", paused: bool = False, **counts: int
) -> CrawlProgress:
    return CrawlProgress(
        number, LONG, 1, status, "manual", NOW, NOW, NOW, None if status == "running" else NOW, None, 100.0,
        Counts(**counts), 0, paused,
    )  # fmt: skip


def everything(crawls: int = 12) -> FleetStatus:
    running = [
        a_crawl(1, discovery_total=3, discovery_done=1, product_total=50, product_done=7),
        a_crawl(
            2,
            discovery_total=3,
            discovery_done=3,
            product_total=1_234_567,
            product_done=1_000_000,
            dead=12,
        ),
        a_crawl(3, paused=True, product_total=9),
    ]
    return FleetStatus(
        crawls=[*running, *(a_crawl(n, "completed", product_total=1, product_done=1) for n in range(4, crawls + 1))],
        paused=["dull"],
        queues=[
            QueueState("datacenter", 1_000_000, 2, 3, 400, 5, 6, 86_400.0 * 4, workers=3),
            QueueState("residential.eu", 10, oldest_s=1.0, workers=0),
            QueueState("browser", 10, oldest_s=1.0, workers=None),
        ],
        dead=[Unusable("shop", "dead", 1234)],
        errors=[
            PageTrouble("shop", "h.example", "timeout", "host", 3, 5.0, f"https://h.example/{'x' * 300}", "no\nanswer", True),
            PageTrouble("shop", "shop.example", "blocked", "host", 3, 5.0, "https://a:s3cret@h/\x1b[2J日本語", None, False),
        ],
        hosts=[HostState("shop.example", pace=0.25, pace_per_s=0.5, rests_s=12.0, why="429\x1b[31m", paused=True, due=7)],
        workers=[WorkerState(f"datacenter-{n}@{LONG}", ["datacenter"], "busy", 4, 400) for n in range(30)],
        away={"redis": "Connection refused"},
    )  # fmt: skip


def shown(found: FleetStatus, width: int, height: int | None) -> list[str]:
    out = io.StringIO()
    console = Console(
        file=out, width=width, height=height or 200, force_terminal=False, color_system=None
    )
    console.print(make_screen(found, width=width, height=height, header=Text("head")))
    return out.getvalue().splitlines()


def test_eighty_columns_show_what_matters_whole() -> None:
    lines = shown(everything(), 80, 50)
    text = "\n".join(lines)
    assert max(map(len, map(str.rstrip, lines))) <= 80 and len(lines) <= 50
    for word in (
        "1,000,003/1,234,570",
        "discovering",
        "none",
        "residential.eu",
        "rests 12 s (429",
        "slowed to 25%",
    ):
        assert word in text, word
    assert (
        "Redis does not answer" in text
        and "shop 1,234 dead" in text
        and "dull" in text
        and "timeout" in text
    )
    assert "s3cret" not in text and "\x1b" not in text and "more" in text


def test_no_time_is_named_while_the_total_grows() -> None:
    found = everything(3)
    found.crawls = found.crawls[:1]
    line = next(line for line in shown(found, 100, 50) if "discovering" in line)
    assert line.count("discovering") == 1 and ":" not in line


@pytest.mark.parametrize("height", [1, 5, 24, None])
@pytest.mark.parametrize("width", [1, 2, 3, 7, 12, 20, 33, 40, 59, 66, 80, 200])
def test_any_size_is_borne(width: int, height: int | None) -> None:
    lines = shown(everything(), width, height)
    assert lines and all(Text(line.rstrip()).cell_len <= max(width, 20) for line in lines)


def test_an_empty_installation_says_how_to_begin() -> None:
    text = "\n".join(shown(FleetStatus([], [], [], [], []), 80, 24))
    assert "scraper crawl SITE" in text and "Traceback" not in text


def a_fleet(size: int = 60) -> FleetStatus:
    """Of which every tenth waits, and one has failed."""
    crawls = []
    for number in range(1, size + 1):
        crawl = a_crawl(number, "failed" if number == 33 else "running", product_total=9)
        state = "waiting" if number % 10 == 0 else "running"
        state = "failed" if number == 33 else state
        crawls.append(replace(crawl, site=f"shop-{number}", state=state, recent_per_s=number))
    why = {33: "no listing was read", 10: "waits for h.example, 4/s"}
    states = {"failed": 1, "waiting": 6, "running": 53}
    found = everything()
    found.crawls, found.why = crawls, why
    found.totals = Totals(sites=60, crawls=59, states=states)
    return found


def test_a_fleet_at_eighty_by_twenty_four() -> None:
    lines = shown(a_fleet(), 80, 24)
    assert len(lines) <= 24 and max(map(len, map(str.rstrip, lines))) <= 80
    assert "59 running  56 more  60 sites: 1 failed, 6 waiting, 53 running" in lines[1]
    assert "shop-33" in lines[3] and "no listing" in lines[3]
    assert "shop-60" in lines[4] and "waiting" in lines[4]


def test_of_one_site_the_whole_reason_is_shown() -> None:
    found = a_fleet(40)
    why = "price: found on 0 of 200 product pages (0%), usually on 100%; " * 3 + "the end"
    found.crawls = [replace(c, site="shop", state="suspect") for c in found.crawls]
    found.crawls.append(replace(found.crawls[0], id=7, state="failed"))
    found.why, found.totals = {40: why, 7: "older, and worse"}, Totals(sites=1, crawls=1)
    lines = shown(found, 80, 24)
    assert len(lines) <= 24 and "suspect: price: found" in " ".join(lines)
    assert any("the end" in line for line in lines)


def sites_of(choice: Choice) -> list[str]:
    make_screen(a_fleet(), width=80, height=24, choice=choice)
    return [crawl.site for crawl in choice.arrange(a_fleet().crawls)[choice.first :]]


def test_pages_are_turned_until_the_whole_fleet_was_seen() -> None:
    choice, seen = Choice(), []
    while rows := sites_of(choice)[: choice.shown]:
        seen += rows
        choice.first += choice.shown
    assert len(seen) == len(set(seen)) == 60 and seen[0] == "shop-33"


@given(st.lists(st.integers(0, 60), min_size=1, max_size=7), st.integers(0, 100))
def test_rows_are_taken_from_the_longest(sizes: list[int], room: int) -> None:
    kept = fit_rows(sizes, room)
    assert all(0 <= k <= size for k, size in zip(kept, sizes, strict=True))
    heads = sum(2 if size else 1 for size in sizes)
    assert sum(kept) + heads <= room or all(k <= 2 for k in kept)
    if sum(sizes) + heads <= room:
        assert kept == sizes


@given(
    st.lists(st.tuples(st.integers(0, 80), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 120),
)
def test_columns_that_stay_whole_do(columns: list[tuple[int, bool]], room: int) -> None:
    made = [Column("", least=None if whole else 4) for _, whole in columns]
    given_ = fit_columns(made, [[Text("x" * size) for size, _ in columns]], room)
    for cells, (size, whole) in zip(given_, columns, strict=True):
        assert cells == size if whole else min(size, 4) <= cells <= size
    too_wide = sum(given_) + GAP * (len(given_) - 1) > room
    assert not too_wide or all(
        cells == (size if whole else min(size, 4))
        for cells, (size, whole) in zip(given_, columns, strict=True)
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1.0, "0 s"), (99.0, "99 s"), (100.0, "2 min"), (7200.0, "2 h"), (864_000.0, "10 d")],
)
def test_a_span_has_one_unit(seconds: float, text: str) -> None:
    assert format_span(seconds) == text
