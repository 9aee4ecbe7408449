"""`scraper host …` as it is typed, on a fleet at work; and what that fleet makes of a host that
says 429."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, until, until_completed
from tests.acceptance.conftest import SampleShop
from tests.acceptance.killed_crawl import SHOP, SLOWER, Crawl
from tests.support.making import a_site, add, new_page, open_crawl, urls
from tests.support.shops.odd_shop import Answer, OddShop, listing, product

PAGES, RATE_PER_S, REST_S = 60, 20, 2
# which request is answered with 429
REFUSED = 10
THROTTLING = f"""
name: throttling
start: {{url}}
robots: ignore
allow_private: true
rate: {RATE_PER_S}/s
concurrency: 4
listing: {{{{products: a.p}}}}
product: {{{{fields: {{{{title: h1}}}}}}}}
"""


def test_the_commands(run: Commands, engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site("a", rate="2/s"))
    add(engine, [new_page(crawl, url) for url in urls(3, "a.example")])

    def host(*words: str, code: int = 0) -> str:
        done = run.scraper("host", *words, code=code)
        return done.stderr if code else done.stdout

    assert host("pause", "A.example") == "a.example: paused\n"
    assert host("pause", "a.example") == "a.example: was paused already\n"
    assert (
        host("set", "a.example", "--rate", "30/m", "--burst", "3")
        == "a.example: rate 30/m, burst 3\n"
    )
    (shown,) = run.json("host", "list")
    assert (
        shown["paused"] and shown["override"] == {"rate": "30/m", "burst": 3} and shown["due"] == 3
    )
    lines = host("list").splitlines()
    assert lines[0].split("\t")[:4] == ["host", "rate", "at once", "burst"]
    assert (
        lines[1].split("\t")[:4] == ["a.example", "0.5/s", "4", "3"]
        and "paused, set by hand" in lines[1]
    )
    assert host("resume", "a.example") == "a.example: resumed\n"
    assert host("set", "a.example", "--reset") == "a.example: as the site definitions say\n"
    assert (
        "nobody.example has no pages yet" in run.scraper("host", "pause", "nobody.example").stderr
    )
    assert "say what" in host("set", "a.example", code=2)
    assert "is not a rate" in host("set", "a.example", "--rate", "often", code=2)
    assert "is not a host name" in host("pause", "https://a.example/", code=2)


def test_a_pause_and_a_rate_reach_a_running_worker(
    run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> None:
    """Within seconds nothing is asked any more; resumed, the crawl goes on where it was, as fast as
    was said."""
    crawl = Crawl(run, engine, sample_shop(*SHOP, changes=SLOWER))
    host = crawl.shop.url.removeprefix("http://")
    crawl.shop.options(latency_ms=1200)
    crawl.until_fetched(0.1)
    assert run.scraper("host", "pause", host).stdout == f"{host}: paused\n"
    until(crawl.quiet, 15, every_s=1.5)
    until(
        lambda: crawl.rows("SELECT count(*) FROM leases WHERE started_at IS NOT NULL") == [(0,)], 15
    )
    assert crawl.quiet() and crawl.progress()["status"] == "running"
    # The worker reports every two seconds how many requests it has under way.
    shown = until(
        lambda: [each for each in run.json("host", "list", host) if each["in_flight"] == 0], 15
    )
    assert [(each["paused"], each["leased"]) for each in shown] == [(True, 0)]

    crawl.shop.options(latency_ms=0)
    before = len(crawl.shop.log())
    run.scraper("host", "set", host, "--rate", "2/s")
    assert run.scraper("host", "resume", host).stdout == f"{host}: resumed\n"
    until(lambda: len(crawl.shop.log()) >= before + 8, 60)
    times = [at for at, _, _ in crawl.shop.log()][before:]
    assert times[7] - times[0] >= 7 * 0.5 - 0.3, "two a second"
    # at two a second the rest would take minutes
    run.scraper("host", "set", host, "--rate", "unlimited")
    crawl.until_completed()
    crawl.assert_exact()
    # A redirect that the pause cut in two is followed from its start again.
    asked = [target for _, target, status in crawl.shop.log() if status != 301]
    assert [target for target, times in Counter(asked).items() if times > 1] == [], (
        "nothing is asked twice"
    )
    assert crawl.rows("SELECT retries FROM crawls") == [(0,)], "and nothing is charged"


def test_a_host_that_says_429_is_spared_by_the_whole_fleet(
    run: Commands, engine: sa.Engine, environment: Settings
) -> None:
    """It rests as long as it asked for, and is asked half as often afterwards: the fleet knows
    both."""
    with OddShop() as shop:
        targets = [f"/p/{n}" for n in range(PAGES)]
        wish = Answer(b"slow down", 429, headers=(f"Retry-After: {REST_S}",))
        good = Answer(product("x", "A").encode())
        for target in targets:
            shop.serve(target, lambda _: wish if len(shop.requests) == REFUSED + 1 else good)
        text = THROTTLING.format(url=shop.serve("/", listing(targets)))
        (environment.sites_dir / "throttling.yaml").write_text(text)
        host = shop.url().removeprefix("http://")
        run.coordinator()
        run.worker("datacenter")
        crawl_id = int(run.scraper("crawl", "throttling").stdout)
        (shown,) = until(
            lambda: [each for each in run.json("host", "list", host) if each["pace"] < 1], 60
        )
        assert 0.5 <= shown["pace"] < 0.7 and 10 <= shown["pace_per_s"] < 14
        # None: the rest is over
        assert shown["why"] in (None, f"429, Retry-After {REST_S} s")
        until_completed(engine, crawl_id, 60)
        times, asked = shop.times(0), shop.asked(0)
    assert sorted(asked) == sorted(["/", *targets, asked[REFUSED]]), (
        "the page that was refused is asked once more"
    )
    rests = [
        n
        for n, (at, later) in enumerate(pairwise(times))
        if n >= REFUSED and later - at >= 0.75 * REST_S
    ]
    assert rests, "it rested"
    slowed = times[rests[0] + 1 :][:20]
    assert len(slowed) == 20
    assert slowed[-1] - slowed[0] >= 0.75 * 19 * 2 / RATE_PER_S, (
        "half as often, and slowly faster again"
    )
