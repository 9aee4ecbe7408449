"""The primary dies in mid-crawl, again and again, and its standby takes over: no row is lost or
doubled, and readers of the feed miss nothing silently. `make failover PROMOTIONS=20` is the long
version."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import psutil
import pytest
import redis
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.infra import database
from scraper.infra.database import make_engine
from scraper.settings import Settings
from tests.acceptance.commands import Commands, assert_counted, until
from tests.acceptance.conftest import SampleShop
from tests.support.making import rows
from tests.support.servers.replication import Pair, open_pair

PROMOTIONS = int(os.environ.get("SCRAPER_PROMOTIONS", "2"))
SEED = int(os.environ.get("SCRAPER_FAILOVER_SEED", "1"))
# More than the site's rate allows until the last promotion, however busy the machine is.
PRODUCTS = 300 * PROMOTIONS
# What the standby of an asynchronous pair lacks when the primary dies, at least and at most.
LAG_S = (1.0, 5.0)
REPLACED = "PostgreSQL was replaced"
DOUBLED = "SELECT external_id, count(*) FROM products GROUP BY 1 HAVING count(*) > 1"


@pytest.fixture(params=["asynchronous", "synchronous"])
def pair(
    request: pytest.FixtureRequest, environment: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pair]:
    with open_pair(synchronous=request.param == "synchronous") as made:
        monkeypatch.setenv("DATABASE_URL", made.url)
        settings_module.load.cache_clear()
        yield made


@pytest.fixture
def engine(pair: Pair) -> Iterator[sa.Engine]:
    made = make_engine(settings_module.load().postgres_url)
    yield made
    made.dispose()


@pytest.mark.timeout(300 + 300 * PROMOTIONS)
def test_no_promotion_loses_or_doubles_a_row(
    pair: Pair, run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> None:
    rng, kind = random.Random(SEED), "synchronous" if pair.synchronous else "asynchronous"
    shop = sample_shop(
        "--products", str(PRODUCTS), "--seed", str(SEED), changes={"rate: unlimited": "rate: 10/s"}
    )
    rules = run.folder / "rules.yaml"
    rules.write_text("- {name: arrivals, when: new}\n")
    run.env |= {"SCRAPER_CHANGES_STREAM": "changes", "SCRAPER_ALERT_RULES": str(rules)}
    run.scraper("migrate")
    for process in (run.coordinator(), run.worker("datacenter,residential")):
        run.until_ready(process)
    # Alerts begin with what comes later.
    until(lambda: bool(rows(engine, "SELECT FROM consumers WHERE name = 'price-alerts'")), 60)
    run.scraper("crawl", "demo")
    read: set[str] = set()
    lake, follower = Lake(run), Follower(run)
    for number in range(PROMOTIONS):
        until(partial(_has_products, engine, 100 * number + rng.randint(20, 120)), 120)
        cursors = _read_changes(run, read)
        lake.read()
        if not pair.synchronous:
            pair.detach_standby()
            time.sleep(rng.uniform(*LAG_S))
            cursors += _read_changes(run, read)
            lake.read()
        began = _began(engine)
        follower.pass_position(began)
        pair.fail_over()
        until(partial(_goes_on, engine, began), 120)
        goes_on = _check_readers(run, pair, cursors)
        assert REPLACED in lake.read()
        follower.check()
        print(
            f"{kind} promotion {number + 1}, seed {SEED}: {goes_on} of {len(cursors)} readers go on, "
            f"{len(cursors) - goes_on} are refused, all were warned; of --follow "
            f"{follower.refused} of {number + 1} were refused"
        )
        pair.add_standby()
    run.scraper("host", "set", shop.url.removeprefix("http://"), "--rate", "unlimited")
    running = "SELECT FROM crawls WHERE status = 'running'"
    until(lambda: not rows(engine, running), 240, every_s=0.2)
    (crawl,) = run.crawls()
    truth = shop.truth()
    assert (crawl["status"], crawl["dead"]) == ("completed", 0)
    assert_counted(engine, crawl)
    stored = {row[0] for row in rows(engine, "SELECT external_id FROM products")}
    doubled = rows(engine, DOUBLED)
    print(
        f"{kind}: {len(truth.keys() - stored)} of {len(truth)} products lost, {len(doubled)} doubled"
    )
    assert (stored, doubled) == (truth.keys(), [])
    whole = _lines(run.scraper("changes", "--since", "oldest").stdout)
    assert sorted(line["id"] for line in whole) == sorted(truth)
    kept = [line["cursor"] for line in whole]
    lake.read()
    print(
        f"{kind}: "
        + "; ".join([lake.check(kept), _check_stream(run, kept), _check_alerts(engine, kept)])
    )
    follower.end(kept)
    # A reader that goes on from the cursor of the message has seen everything, and nothing from nowhere.
    assert read | {line["id"] for line in whole} == truth.keys()
    assert "page rejected" not in (logs := run.logs(whole=True)) and "group lost" not in logs


def test_a_primary_that_comes_back_writable_is_not_written_to(
    pair: Pair, run: Commands, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq alone would choose it, since the URL names it first."""
    run.scraper("migrate")
    assert rows(engine, "SELECT current_setting('port')") == [(str(pair.ports[0]),)]
    pair.fail_over()
    until(lambda: _get_port(engine) == pair.ports[1], 60)
    pair.start_replaced()
    for _ in range(3):
        engine.dispose()
        assert until(partial(_get_port, engine), 60) == pair.ports[1]
    with _stopped(pair) as promoted:
        engine.dispose()
        with pytest.raises(sa.exc.OperationalError, match="only a replaced primary answers"):
            engine.connect()
        # Another process has not used the promoted server, and asks it a second time.
        monkeypatch.setattr(database, "timelines_used", {})
        monkeypatch.setattr(database, "ASK_S", (2, 60))
        threading.Timer(3, promoted.resume).start()
        assert _get_port(engine) == pair.ports[1]
    run.scraper("changes", "--consumer", "lake")
    served = run.scraper("psql", "-Atc", "SELECT current_setting('port')").stdout
    assert served.split() == [str(pair.ports[1])]
    with pair.connect(node=0) as old, pair.connect(node=1) as new:
        names = "SELECT name FROM consumers"
        assert (old.execute(names).fetchall(), new.execute(names).fetchall()) == ([], [("lake",)])


class Lake:
    """A named consumer, and the cursors of the lines that it has."""

    def __init__(self, run: Commands) -> None:
        self.run = run
        self.cursors: list[int] = []

    def read(self) -> str:
        """Returns the warnings."""
        done = self.run.scraper("changes", "--consumer", "lake")
        self.cursors += [line["cursor"] for line in _lines(done.stdout)]
        return done.stderr

    def check(self, kept: list[int]) -> str:
        """It misses none. Where its position was lost, changes come again."""
        times = Counter(self.cursors)
        assert set(kept) <= times.keys()
        lost, again = times.keys() - set(kept), sum(times.values()) - len(times)
        return f"the consumer read {len(lost)} lost changes, and {again} again"


class Follower:
    """`--follow`, which goes on from the cursor of the message when it is refused."""

    def __init__(self, run: Commands) -> None:
        self.run = run
        self.refused, self.warnings, self.cursors = 0, 0, list[int]()
        self._start("oldest")

    def pass_position(self, began: int) -> None:
        """Waits until it has read beyond what the last failover may have lost: from there on it warns
        of the next one."""
        until(lambda: max(self._cursors(), default=0) > began, 60)
        self.warnings = self._count_warnings()

    def check(self) -> None:
        """Waits until it is warned or refused."""
        until(lambda: self._is_warned() or self.process.poll() is not None, 60)
        if self._is_warned():
            self._end()
            self._start(str(self.cursors[-1]))
            return
        assert self.process.wait(60) == 6 and REPLACED in self._text(), self._text()
        self.refused += 1
        common = self._text().rpartition("go on from cursor ")[2].partition(",")[0]
        self._read()
        self._start(common)

    def end(self, kept: list[int]) -> None:
        until(lambda: f'"cursor":{kept[-1]},' in self._text(), 60)
        self._end()
        assert [cursor for cursor in self.cursors if cursor in set(kept)] == kept

    def _start(self, since: str) -> None:
        self.process = self.run.start("scraper", "changes", "--follow", "--since", since)

    def _end(self) -> None:
        assert self.run.end(self.process) == 0
        self._read()

    def _is_warned(self) -> bool:
        return self._count_warnings() > self.warnings

    def _count_warnings(self) -> int:
        return self._text().count(f"{REPLACED}:")

    def _read(self) -> None:
        self.cursors += self._cursors()

    def _cursors(self) -> list[int]:
        # Its last line may still be half written.
        lines = [line for line in self._text().splitlines(keepends=True) if line.endswith("}\n")]
        return [json.loads(line)["cursor"] for line in lines]

    def _text(self) -> str:
        return self.run.log(self.process)


def _check_stream(run: Commands, kept: list[int]) -> str:
    """It has each change once, and its readers see by `after` that some were lost."""
    entries: list[tuple[int, int]] = []
    with redis.Redis.from_url(settings_module.load().valkey_url, decode_responses=True) as client:

        def is_filled() -> bool:
            entries[:] = [
                (_position(entry), _position(fields["after"]))
                for entry, fields in client.xrange("changes")
            ]
            return bool(entries) and entries[-1][0] == kept[-1]

        until(is_filled, 60)
    assert [cursor for cursor, _ in entries if cursor in set(kept)] == kept
    gaps = 0
    for (before, _), (cursor, after) in pairwise(entries):
        if before not in set(kept) and cursor in set(kept):
            assert after != before
            gaps += 1
    warned = run.logs(whole=True).count("stream has changes that PostgreSQL lost")
    assert warned == gaps
    return f"the stream has {len(entries) - len(kept)} lost changes, with {gaps} warnings"


def _position(entry: str) -> int:
    return int(entry.partition("-")[0])


def _check_alerts(engine: sa.Engine, kept: list[int]) -> str:
    query = "SELECT change_id FROM price_alerts ORDER BY 1"
    until(lambda: [cursor for (cursor,) in rows(engine, query)] == kept, 60)
    return f"{len(kept)} alerts, none doubled"


@contextmanager
def _stopped(pair: Pair) -> Iterator[psutil.Process]:
    """The primary, which takes connections and answers none."""
    lines = (pair.folder / f"node{pair.primary}" / "postmaster.pid").read_text().splitlines()
    primary = psutil.Process(int(lines[0]))
    primary.suspend()
    try:
        yield primary
    finally:
        primary.resume()


def _get_port(engine: sa.Engine) -> int | None:
    """The port of the server that answers; None while none does."""
    try:
        return int(rows(engine, "SELECT current_setting('port')")[0][0])
    except sa.exc.DBAPIError:
        return None


def _read_changes(run: Commands, read: set[str]) -> list[int]:
    lines = _lines(run.scraper("changes", "--since", "oldest").stdout)
    read |= {line["id"] for line in lines}
    return [line["cursor"] for line in lines[-1:]]


def _check_readers(run: Commands, pair: Pair, cursors: list[int]) -> int:
    """A cursor whose row survived goes on; another one is refused, with what to do. Returns how many
    go on."""
    with pair.connect() as connection:
        kept = {id_ for (id_,) in connection.execute("SELECT id FROM changes").fetchall()}
    for cursor in cursors:
        done = run.scraper("changes", "--since", str(cursor), code=0 if cursor in kept else 6)
        assert REPLACED in done.stderr
        assert not pair.synchronous or cursor in kept
        if cursor in kept:
            assert {line["cursor"] for line in _lines(done.stdout)} >= {
                id_ for id_ in kept if id_ > cursor
            }
        else:
            assert "scraper export" in done.stderr
    return len(kept.intersection(cursors))


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _has_products(engine: sa.Engine, least: int) -> bool:
    return rows(engine, "SELECT count(*) FROM products")[0] >= (least,)


def _goes_on(engine: sa.Engine, began: int) -> bool:
    return _began(engine) > began


def _began(engine: sa.Engine) -> int:
    """Where the feed goes on since the last failover; 0 while no server answers."""
    try:
        with engine.connect() as connection:
            return int(connection.execute(sa.text("SELECT began FROM feed")).scalar_one())
    except sa.exc.DBAPIError:
        return 0
