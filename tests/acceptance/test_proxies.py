"""Real workers through real proxies: what the shop saw, what the commands say, and that no secret
is anywhere."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import psutil
import pytest
import redis
import sqlalchemy as sa

from scraper.proxies.health import PREFIX
from scraper.settings import Settings
from tests.acceptance.commands import Commands, until
from tests.support.making import rows
from tests.support.servers.proxies import DIRECT, SECRET, Field, TestProxy

Opened = Callable[..., int]


@pytest.fixture
def listed(environment: Settings, run: Commands, tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path, new = tmp_path / "proxies.txt", tmp_path / "proxies.new"
        new.write_text(text)
        new.chmod(0o600)
        new.replace(path)
        run.env["PROXY_LIST"] = str(path)
        return path

    return write


@pytest.fixture
def crawl(environment: Settings, run: Commands, engine: sa.Engine) -> Opened:
    """Writes the definition and opens a crawl."""

    def begin(field: Field, proxy: str, more: str = "", rate: str = "unlimited") -> int:
        text = field.definition(proxy, more).replace("rate: unlimited", f"rate: {rate}")
        (environment.sites_dir / "shop.yaml").write_text(text)
        return int(run.scraper("crawl", "shop").stdout)

    return begin


def ended(engine: sa.Engine, timeout_s: float = 60) -> None:
    until(
        lambda: not rows(engine, "SELECT FROM crawls WHERE status IN ('planned', 'running')"),
        timeout_s,
    )
    assert rows(engine, "SELECT status, dead, invalid FROM crawls ORDER BY id DESC LIMIT 1") == [
        ("completed", 0, 0)
    ]


def no_secret_anywhere(run: Commands, engine: sa.Engine, settings: Settings, *texts: str) -> None:
    """Not in a log line, a table, a Redis key or value, nor on a command line."""
    tables = rows(engine, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    found = [
        str(row) for (table,) in tables for row in rows(engine, f"SELECT t::text FROM {table} t")
    ]
    with redis.Redis.from_url(settings.valkey_url) as client:
        found += [repr(key) + repr(client.dump(key)) for key in client.scan_iter()]
    found += [
        " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])
    ]
    for text in [run.logs(whole=True), *texts, *found]:
        assert SECRET not in text


def test_a_fleet_shares_what_it_knows_and_never_asks_directly(
    run: Commands,
    crawl: Opened,
    listed: Callable[[str], Path],
    engine: sa.Engine,
    environment: Settings,
) -> None:
    """Two workers, proxies dead, banned and slow; robots.txt, sitemap, redirects and all at the
    rate of the site."""
    good, slow = [TestProxy(n) for n in (1, 2)], TestProxy(3, "socks5", mode="slow")
    banned, dead = TestProxy(4), TestProxy(5, "socks5", mode="closed")
    with Field(*good, slow, banned, dead, products=300) as field:
        field.banned = {banned.address}
        listed(field.lines())
        run.coordinator()
        workers = [run.worker("datacenter", env={"SCRAPER_LOG_LEVEL": "DEBUG"}) for _ in range(2)]
        for worker in workers:
            run.until_ready(worker)
        crawl(field, "datacenter", rate="30/s")

        # A first quarantine lasts for half a minute.
        def read_states() -> list[dict[str, Any]]:
            proxies = run.json("proxies")
            states = {proxy["state"] for proxy in proxies}
            return proxies if {"quarantine", "dead"} <= states else []

        early = until(read_states, 20)
        table = run.scraper("proxies").stdout
        at_host = run.scraper("proxies", "--host", f"127.0.0.1:{field.port}").stdout
        states = sorted(proxy["state"] for proxy in early)
        assert (
            states.count("free") == 3
            and states.count("quarantine") == 1
            and states.count("dead") == 1
        )
        (resting,) = [proxy for proxy in early if proxy["state"] == "quarantine"]
        assert [(h["host"], h["why"]) for h in resting["hosts"]] == [
            (f"127.0.0.1:{field.port}", "blocked")
        ]
        assert (
            "(blocked, " in table and "dead (unusable, " in table and len(at_host.splitlines()) == 6
        )
        ended(engine)
        peers = field.peers()
        assert DIRECT not in peers
        assert set(peers) == {proxy.address for proxy in [*good, slow, banned]}
        assert peers[banned.address] <= 16, (
            "each of two workers has to find out with what is under way, no more"
        )
        # The first seconds are spent before any worker has reported how slow it is.
        assert peers[slow.address] < mean(peers[proxy.address] for proxy in good) * 0.8
        assert rows(
            engine, "SELECT sum(host_attempts), count(*) FILTER (WHERE attempts > 1) FROM pages"
        ) == [(0, 0)]
        times = sorted(hit.at for hit in field.hits)
        window = max(sum(at <= t < at + 1 for t in times) for at in times)
        assert window <= 40, "the host's budget holds for all proxies together"

        # Workers report what they saw every two seconds.
        def read_all() -> list[dict[str, Any]]:
            proxies = run.json("proxies")
            return proxies if sum(proxy["requests"] for proxy in proxies) >= 302 else []

        late = until(read_all, 15)
        assert len({proxy["id"] for proxy in late}) == 5
        struck = {proxy["id"] for proxy in late if any(h["strikes"] for h in proxy["hosts"])}
        assert resting["id"] in struck
        assert struck <= {proxy["id"] for proxy in early if proxy["state"] != "free"}
        assert run.scraper("proxies", "--host", "nowhere.example", code=2).stderr
        no_secret_anywhere(run, engine, environment, table, at_host, str(early), str(late))
        for worker in workers:
            assert run.end(worker) == 0


def test_pages_wait_without_a_proxy_and_go_on_when_the_list_has_one(
    run: Commands,
    crawl: Opened,
    listed: Callable[[str], Path],
    engine: sa.Engine,
    environment: Settings,
) -> None:
    one = TestProxy(1)
    with Field(one, products=30) as field:
        listed(field.lines("class=datacenter"))
        run.coordinator()
        run.until_ready(run.worker("datacenter"))
        crawl(field, "{pool: residential, requests: 10}", "user_agent: browser\n")
        waiting = "SELECT DISTINCT last_outcome, error, attempts, host_attempts FROM pages"
        until(
            lambda: (
                rows(engine, waiting) == [("no_proxy", "no residential proxy is on the list", 0, 0)]
            ),
            20,
        )
        assert field.hits == []
        listed(field.lines("class=residential"))
        # the list is looked at every two seconds
        time.sleep(2.5)
        # the wait's end, without waiting for it
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE pages SET not_before = now()"))
        ended(engine)
        assert set(field.peers()) == {one.address}
        assert any("cookie" in hit.headers for hit in field.hits)
        assert {hit.headers["user-agent"].partition(" ")[0] for hit in field.hits} == {
            "Mozilla/5.0"
        }
        assert not any("scraper" in hit.headers["user-agent"] for hit in field.hits)
        no_secret_anywhere(run, engine, environment)
        with redis.Redis.from_url(environment.valkey_url) as client:
            assert until(lambda: list(client.scan_iter(match=f"{PREFIX}*")), 10), (
                "told every two seconds"
            )


def test_the_list_is_checked(
    run: Commands, listed: Callable[[str], Path], environment: Settings
) -> None:
    with Field(TestProxy(1), TestProxy(2, "socks5"), TestProxy(3, mode="closed")) as field:
        assert "PROXY_LIST" in run.scraper("proxies", "check", code=2).stderr
        path = listed(field.lines("class=residential region=eu", field.proxies[:2]))
        assert run.scraper("proxies", "check", "--connect").stdout.splitlines() == [
            "2 proxies, no errors", "     2 residential in eu", "all 2 answer",
        ]  # fmt: skip
        assert json.loads(run.scraper("proxies", "check", "--connect", "--json").stdout) == {
            "proxies": 2, "pools": [{"pool": "residential", "region": "eu", "count": 2}], "failed": [],
        }  # fmt: skip
        path.chmod(0o644)
        assert "chmod 600" in run.scraper("proxies", "check").stderr
        listed(field.lines())
        failed = run.scraper("proxies", "check", "--connect", code=1)
        assert (
            "1 of 3 proxies do not answer" in failed.stderr
            and "no connection to it" in failed.stderr
        )
        failed_json = run.scraper("proxies", "check", "--connect", "--json", code=1)
        assert len(json.loads(failed_json.stdout)["failed"]) == 1
        listed(field.lines() + f"http://user:{SECRET}@h:1 class=rezidential\n{SECRET}\n")
        wrong = run.scraper("proxies", "check", code=2)
        assert [line.split(": ")[1 if number == 0 else 0] for number, line in enumerate(wrong.stderr.splitlines())] == [
            f"{path}:4", f"{path}:5",
        ]  # fmt: skip
        path.unlink()
        assert "No such file" in run.scraper("proxies", "check", code=2).stderr
        told = failed.stdout + failed.stderr + wrong.stdout + wrong.stderr
        assert SECRET not in told and str(field.proxies[0].port) not in told


def test_blocked_pages_go_to_the_workers_above(
    run: Commands, crawl: Opened, listed: Callable[[str], Path], engine: sa.Engine
) -> None:
    """The shop bans every datacenter proxy; workers of two queues, and at first none that a blocked
    page could go to."""
    cheap, dear = [TestProxy(n) for n in range(1, 5)], [TestProxy(11), TestProxy(12, "socks5")]
    with Field(*cheap, *dear, products=60) as field:
        field.banned = {proxy.address for proxy in cheap}
        listed(
            field.lines("class=datacenter", cheap)
            + field.lines("class=residential region=eu", dear)
        )
        run.coordinator()
        run.until_ready(run.worker("datacenter"))
        crawl(field, "datacenter", "escalate: [residential, browser]\n")
        waiting = "SELECT count(*) FROM pages WHERE status = 'due' AND queue = 'residential'"
        until(lambda: rows(engine, waiting) != [(0,)], 60)
        assert not {hit.peer for hit in field.hits} - field.banned
        run.until_ready(run.worker("residential"))
        ended(engine)
        assert rows(engine, "SELECT count(*) FROM products") == [(60,)]
        assert rows(engine, "SELECT sum(host_attempts), max(attempts) FROM pages") == [(0, 1)]
        peers = field.peers("/p/")
        assert DIRECT not in field.peers()
        assert sum(peers[proxy.address] for proxy in cheap) <= 33, (
            "three pages, and what was under way, by three each"
        )
        (host,) = run.json("host", "list", f"127.0.0.1:{field.port}")
        (route,) = host["routes"]
        assert (route["site"], route["start"], route["level"]) == (
            "shop",
            "datacenter",
            "residential",
        )
        assert 0 < route["probe_s"] <= 600
        assert "residential for shop" in run.scraper("host", "list").stdout
