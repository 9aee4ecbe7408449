"""Users' functions on real worker processes, called as a program outside would: order, streaming,
failures, recovery."""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from scraper.frontier import sites
from scraper.plugins.functions.client import (
    CallError,
    CallTimeoutError,
    Client,
    FunctionRefusedError,
    ServerUnavailableError,
)
from scraper.settings import Settings
from scraper.sites import loader
from tests.acceptance.commands import Commands, until
from tests.acceptance.conftest import SampleShop
from tests.support import called
from tests.support.servers.forked import ROOT, start_program

MODULE = called.__name__


@pytest.fixture
def shop(
    calling: Settings, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> Callable[..., tuple[SampleShop, list[str]]]:
    """The sample shop, whose definition is in the database as `demo`, and the URLs of its products."""

    def start(*options: str, **changes: str) -> tuple[SampleShop, list[str]]:
        found = sample_shop(*options, changes=changes)
        with engine.begin() as connection:
            sites.store_definitions(connection, [loader.load_file(calling.sites_dir / "demo.yaml")])
        return found, [record["url"] for record in found.truth().values()]

    return start


def keys(settings: Settings) -> list[bytes]:
    with redis.Redis.from_url(settings.valkey_url) as client:
        return list(client.keys("scraper:call:*"))  # type: ignore[arg-type]


def test_a_thousand_inputs_some_of_which_fail(
    shop: Callable[..., tuple[SampleShop, list[str]]], run: Commands, calling: Settings
) -> None:
    """In order, each once, whatever becomes of the others; ten messages; everything else about
    failures is reported."""
    found, urls = shop("--products", "400")
    env = {"SCRAPER_RESULT_MAX_BYTES": str(called.BIG), "SCRAPER_INPUT_TIMEOUT_S": "2"}
    for worker in [run.worker("datacenter", env=env), run.worker("datacenter", env=env)]:
        run.until_ready(worker)
    odd: list[list[Any]] = [
        ["fetch", f"{found.url}/p/999999"],
        ["raise", "Größe"],
        ["set", 1],
        ["big", called.BIG + 1],
        ["big", called.BIG - 2],
        ["hang", 0],
        ["exit", 3],
        ["nan", 0],
        ["fetch", "http://169.254.169.254/latest/meta-data"],
        ["fetch", "file:///etc/passwd"],
        ["fetch", "http://no-such-host.invalid/"],
    ]
    inputs: list[list[Any]] = [
        ["fetch", urls[n % len(urls)]] if n % 50 else odd[n // 50 % len(odd)] for n in range(1000)
    ]
    call = Client().map(
        f"{MODULE}:mixed", inputs, site="demo", return_exceptions=True, timeout_s=60
    )
    results = list(call)
    assert len(results) == 1000 and call.messages <= 12
    truth = {record["url"]: record["name"] for record in found.truth().values()}
    failures: dict[str, set[tuple[str, str, str]]] = {}
    for n, (given, result) in enumerate(zip(inputs, results, strict=True)):
        if isinstance(result, CallError):
            assert (result.index, result.input) == (n, given)
            failures.setdefault(str(given)[:30], set()).add(
                (result.type, result.blame, result.outcome)
            )
        elif given[0] == "fetch":
            assert truth[given[1]] in html.unescape(result)
        else:
            assert result == "x" * (called.BIG - 2)
    assert failures == {
        str(odd[0])[:30]: {("HTTPStatusError", "page", "not_found")},
        str(odd[1])[:30]: {("ValueError", "parser", "function_failed")},
        str(odd[2])[:30]: {("TypeError", "parser", "function_failed")},
        str(odd[3])[:30]: {("ValueError", "parser", "too_large")},
        str(odd[5])[:30]: {("TimeoutError", "parser", "function_failed")},
        str(odd[6])[:30]: {("SystemExit", "parser", "function_failed")},
        str(odd[7])[:30]: {("TypeError", "parser", "function_failed")},
        str(odd[8])[:30]: {("RefusedRequestError", "page", "forbidden_address")},
        str(odd[9])[:30]: {("RemoteProtocolError", "page", "malformed")},
        str(odd[10])[:30]: {("RefusedRequestError", "host", "robots_unavailable")},
    }
    assert found.log()[0][1] == "/robots.txt"
    until(lambda: keys(calling) == [] or _ttl(calling) > 0, 10)


def _ttl(settings: Settings) -> int:
    """The shortest time to live of what calls have left in Redis."""
    with redis.Redis.from_url(settings.valkey_url) as client:
        return min(client.ttl(key) for key in client.keys("scraper:call:*"))  # type: ignore[type-var,return-value,union-attr]


def test_results_come_while_the_last_are_not_begun(
    run: Commands, calling: Settings, tmp_path: Path
) -> None:
    """The last group's inputs end only after the caller has had its first result; and it has more
    of them than lanes, so its last ones begin after that. An iterable is not read to its end either
    before results are taken."""
    run.until_ready(run.worker("datacenter"))
    there, taken = tmp_path / "there", 0

    def inputs() -> Iterator[list[Any]]:
        for n in range(4000):
            assert n < 3000 or taken > 0, "read far ahead of the results"
            yield [n, str(there) if 900 <= n < 1000 else None]

    for n, (value, _) in enumerate(Client().map(f"{MODULE}:when_there", inputs(), timeout_s=120)):
        assert value == n
        taken += 1
        there.touch()
    assert taken == 4000


def test_unordered_pairs_and_two_workers(run: Commands, calling: Settings, tmp_path: Path) -> None:
    """The first input ends last. Both workers have a share."""
    workers = [run.worker("datacenter"), run.worker("datacenter")]
    for worker in workers:
        run.until_ready(worker)
    there = tmp_path / "there"
    inputs = [[n, str(there) if n == 0 else None] for n in range(400)]
    pids, order = set(), []
    for index, (value, pid) in Client().map(
        f"{MODULE}:when_there", inputs, ordered=False, timeout_s=120
    ):
        assert index == value
        order.append(index)
        pids.add(pid)
        if len(order) == 399:
            there.touch()
    assert sorted(order) == list(range(400)) and order[-1] == 0
    assert pids == {worker.pid for worker in workers}


def test_async(run: Commands, calling: Settings) -> None:
    run.until_ready(run.worker("datacenter"))

    async def main() -> None:
        client = Client()
        assert await client.map(f"{MODULE}:echo", range(25)) == list(range(25))
        assert [each async for each in client.map(f"{MODULE}:echo", ["ä", None, {"a": [1.5]}])] == [
            "ä",
            None,
            {"a": [1.5]},
        ]
        both = await asyncio.gather(
            client.map(f"{MODULE}:echo", [1]), client.map(f"{MODULE}:echo", [2])
        )
        assert both == [[1], [2]]

    asyncio.run(main())
    assert list(Client().map(f"{MODULE}:echo", [])) == []


def test_an_error_is_raised_in_its_place_and_cancels_the_rest(
    run: Commands, calling: Settings, tmp_path: Path
) -> None:
    run.until_ready(run.worker("datacenter"))
    call = Client().map(f"{MODULE}:mixed", [["fine", 0], ["raise", "no such luck"], ["hang", 0]])
    assert next(call) == "fine"
    with pytest.raises(CallError, match="no such luck") as raised:
        next(call)
    assert raised.value.index == 1 and "tests/support/called.py" in raised.value.traceback
    assert list(call) == []
    until(lambda: b"scraper:call:%s:results" % call._sender.call.encode() not in keys(calling), 10)
    assert list(Client().map(f"{MODULE}:echo", ["next"])) == ["next"]


def test_a_worker_that_is_killed(run: Commands, calling: Settings, tmp_path: Path) -> None:
    """Two workers have begun; one is killed, the other does what is left. Each result comes once."""
    workers = [run.worker("datacenter"), run.worker("datacenter")]
    for worker in workers:
        run.until_ready(worker)
    log, there = tmp_path / "log", tmp_path / "there"
    call = Client().map(
        f"{MODULE}:noted",
        [[n, str(log), str(there)] for n in range(200)],
        ordered=False,
        timeout_s=120,
    )
    until(
        lambda: (
            log.exists()
            and len(begun(log).values()) >= 2
            and {*pids(log)} == {w.pid for w in workers}
        ),
        30,
    )
    run.end(workers[0], signal.SIGKILL)
    there.touch()
    results = list(call)
    assert sorted(results) == [(n, n) for n in range(200)]
    assert max(begun(log).values()) <= 2


def begun(log: Path) -> Counter[int]:
    return Counter(int(line.split()[0]) for line in log.read_text().splitlines())


def pids(log: Path) -> list[int]:
    return [int(line.split()[1]) for line in log.read_text().splitlines()]


def test_a_worker_that_stops_hands_back(run: Commands, calling: Settings, tmp_path: Path) -> None:
    """What it had under way and not, the next one does: at once, not when a lease has run out."""
    first = run.worker("datacenter", env={"SCRAPER_LEASE_S": "600"})
    run.until_ready(first)
    log, there = tmp_path / "log", tmp_path / "there"
    call = Client().map(
        f"{MODULE}:noted", [[n, str(log), str(there)] for n in range(300)], timeout_s=120
    )
    until(lambda: log.exists() and len(begun(log)) >= 30, 30)
    first.send_signal(signal.SIGTERM)
    second = run.worker("datacenter", env={"SCRAPER_LEASE_S": "600"})
    assert first.wait(120) == 0, run.log(first)
    there.touch()
    assert list(call) == list(range(300))
    assert second.pid in pids(log)


def test_redis_is_emptied(run: Commands, calling: Settings, tmp_path: Path) -> None:
    """Groups under way go on; those whose messages are lost are sent again."""
    # one group at a time: the others wait in the broker or its memory
    worker = run.worker("datacenter", "-c", "1")
    run.until_ready(worker)
    log, there = tmp_path / "log", tmp_path / "there"
    call = Client().map(
        f"{MODULE}:noted", [[n, str(log), str(there)] for n in range(1000)], timeout_s=120
    )
    until(lambda: log.exists() and len(begun(log)) >= 16, 60)
    with redis.Redis.from_url(calling.valkey_url) as client:
        client.flushdb()
    there.touch()
    assert list(call) == list(range(1000))


def test_an_input_that_kills_workers(run: Commands, calling: Settings) -> None:
    """It is given up, and nothing else is. A supervisor starts workers again, as a real one would."""
    over = Event()

    words = ("celery", "-A", "scraper", "worker", "-Q", "datacenter", "-n", f"p{os.getpid()}@%h")

    def supervise() -> None:
        worker = run.start(*words)
        while not over.wait(0.05):
            if worker.poll() is not None:
                worker = run.start(*words)

    supervisor = Thread(target=supervise)
    supervisor.start()
    try:
        results = list(
            Client().map(f"{MODULE}:poison", range(40), return_exceptions=True, timeout_s=200)
        )
    finally:
        over.set()
        supervisor.join()
    assert [result for n, result in enumerate(results) if n != 13] == [
        n for n in range(40) if n != 13
    ]
    lost = results[13]
    assert isinstance(lost, CallError) and (lost.type, lost.blame, lost.outcome) == (
        "WorkerLostError",
        "us",
        "worker_lost",
    )


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("os:system", "SCRAPER_FUNCTIONS allows tests.support.called"),
        ("tests:called", "SCRAPER_FUNCTIONS allows tests.support.called"),
        ("tests.support.called.Walk:echo", "SCRAPER_FUNCTIONS allows tests.support.called"),
        ("tests.support.called:Walk.echo", "does not name a function"),
        ("tests.support.called:__import__", "does not name a function"),
        ("tests.support.called:_private", "does not name a function"),
    ],
)
def test_what_may_not_be_called_is_refused_before_anything_is_sent(
    calling: Settings, function: str, told: str
) -> None:
    with pytest.raises(FunctionRefusedError, match=told):
        Client().map(function, [1])


def test_what_may_not_be_called_is_refused_by_the_worker(
    run: Commands, calling: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers that allow themselves everything."""
    run.until_ready(run.worker("datacenter", env={"SCRAPER_FUNCTIONS": MODULE}))
    monkeypatch.setattr("scraper.plugins.functions.group.parts_of", lambda *_: None)
    refused = {
        "os:getpid": "SCRAPER_FUNCTIONS allows tests.support.called",
        "antigravity:fly": "SCRAPER_FUNCTIONS allows tests.support.called",
        "tests.support.called:Walk.echo": "does not name a function",
        "tests.support.called:Path": "not a function that is defined in",
        "tests.support.called:imported": "not a function that is defined in",
        "tests.support.called:not_async": "not an async function",
        "tests.support.called:_private": "does not name a function",
        "tests.support.called:ecco": "did you mean 'echo'",
    }
    for function, told in refused.items():
        with pytest.raises(FunctionRefusedError, match=told):
            list(Client().map(function, [1, 2]))


def test_no_worker_serves_the_queue(calling: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scraper.plugins.functions.client.UNSERVED_S", 3.0)
    with pytest.raises(ServerUnavailableError, match="celery -A scraper worker -Q nobodys"):
        list(Client().map(f"{MODULE}:echo", [1], queue="nobodys"))


def test_a_worker_is_started_where_no_worker_serves(calling: Settings) -> None:
    with Client(local=True) as client:
        assert list(client.map(f"{MODULE}:echo", range(3), queue="mine", region="eu")) == [0, 1, 2]


def test_a_total_timeout_and_what_does_not_let_go(run: Commands, calling: Settings) -> None:
    run.until_ready(run.worker("datacenter"))
    (first,) = Client().map(f"{MODULE}:stubborn", [1], return_exceptions=True, input_timeout_s=0.2)
    assert (first.type, first.blame) == ("TimeoutError", "parser")
    with pytest.raises(CallTimeoutError):
        list(Client().map(f"{MODULE}:mixed", [["hang", 0]], timeout_s=2))


def test_a_client_of_ones_own(run: Commands, calling: Settings, tmp_path: Path) -> None:
    """Made once a process, closed at its end."""
    log = tmp_path / "made"
    worker = run.worker(
        "datacenter", env={"SCRAPER_CLIENT_INIT": f"{MODULE}:make", "MADE_LOG": str(log)}
    )
    run.until_ready(worker)
    assert set(Client().map(f"{MODULE}:own_client", ["pid"] * 50)) == {worker.pid}
    assert list(Client().map(f"{MODULE}:own_client", ["client"])) == ["AsyncClient"]
    assert run.end(worker) == 0
    assert log.read_text().splitlines() == [f"made {worker.pid}", f"closed {worker.pid}"]
    env = {"SCRAPER_CLIENT_INIT": f"{MODULE}:nothing", "MADE_LOG": str(log)}
    run.until_ready(run.worker("datacenter", env=env))
    (failed,) = Client().map(f"{MODULE}:own_client", ["pid"], return_exceptions=True)
    assert "has no function 'nothing'" in failed.message and failed.blame == "us"


def test_the_budget_of_the_host_and_its_pause(
    shop: Callable[..., tuple[SampleShop, list[str]]], run: Commands, calling: Settings
) -> None:
    """The site's rate holds over both workers; a paused host is not asked, and is again once it is
    resumed."""
    found, urls = shop(
        "--products", "40", **{"rate: unlimited": "rate: 10/s", "concurrency: 16": "concurrency: 2"}
    )
    for worker in [run.worker("datacenter"), run.worker("datacenter")]:
        run.until_ready(worker)
    assert len(list(Client().map(f"{MODULE}:title", urls[:30], site="demo"))) == 30
    asked = sorted(found.log())
    times, robots = (
        [at for at, _, _ in asked],
        [target for _, target, _ in asked].count("/robots.txt"),
    )
    assert len(asked) == 30 + robots and 1 <= robots <= 2, (
        "both workers may ask for it at the same moment"
    )
    assert min(late - early for early, late in zip(times, times[10:], strict=False)) > 0.7, (
        "1 s, as they left"
    )
    host = found.url.removeprefix("http://")
    run.scraper("host", "pause", host)
    found.forget()
    call = Client().map(f"{MODULE}:title", urls[:3], site="demo", input_timeout_s=1)
    with pytest.raises(CallTimeoutError):
        list(Client().map(f"{MODULE}:title", urls[3:4], site="demo", timeout_s=6))
    assert found.log() == []
    run.scraper("host", "resume", host)
    assert len(list(call)) == 3


def test_redirects_and_what_is_not_sent(
    shop: Callable[..., tuple[SampleShop, list[str]]], run: Commands, calling: Settings
) -> None:
    found, urls = shop("--products", "5")
    run.until_ready(run.worker("datacenter"))
    number = urls[0].rpartition("/")[2].partition("-")[0]
    ((status, hops, final),) = Client().map(
        f"{MODULE}:redirects", [f"{found.url}/p/{number}"], site="demo"
    )
    assert (status, hops, final) == (200, 1, urls[0])
    assert list(Client().map(f"{MODULE}:posts", [found.url], site="demo")) == [[200, 1.5]]
    (put,) = Client().map(f"{MODULE}:puts", [urls[0]], site="demo", return_exceptions=True)
    assert put.type == "RemoteProtocolError" and "only GET and POST" in put.message
    (private,) = Client().map(f"{MODULE}:title", [urls[0]], return_exceptions=True)
    assert private.outcome == "forbidden_address", "no site allows it"
    with pytest.raises(FunctionRefusedError, match="no site named 'nosuch'"):
        list(Client().map(f"{MODULE}:title", [urls[0]], site="nosuch"))


def test_run(
    shop: Callable[..., tuple[SampleShop, list[str]]],
    run: Commands,
    calling: Settings,
    tmp_path: Path,
) -> None:
    """The command: arguments, a file, standard input; lines in order; exit codes."""
    found, urls = shop("--products", "30")
    run.until_ready(run.worker("datacenter"))
    words = ("run", f"{MODULE}:title", "--site", "demo")
    done = run.scraper(*words, *urls[:3])
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == urls[
        :3
    ] and done.stderr == ""
    path = tmp_path / "urls.txt"
    path.write_text("\n".join(urls) + "\n")
    lines = [
        json.loads(line)
        for line in run.scraper(*words, "--json", "-f", str(path)).stdout.splitlines()
    ]
    assert [(line["index"], line["input"]) for line in lines] == list(enumerate(urls))
    assert all(line["result"] for line in lines)
    failing = run.scraper(*words, "--json", urls[0], f"{found.url}/p/999999", code=4)
    first, second = map(json.loads, failing.stdout.splitlines())
    assert "result" in first and second["error"]["outcome"] == "not_found"
    assert "1 of 2 calls failed" in failing.stderr
    assert (
        f"{found.url}/p/999999\tHTTPStatusError"
        in run.scraper(*words, f"{found.url}/p/999999", code=4).stderr
    )
    assert "SCRAPER_FUNCTIONS allows" in run.scraper("run", "os:system", "ls", code=2).stderr
    run.scraper(*words, code=2)
    piped = run.scraper("run", f"{MODULE}:echo", "--unordered", "-", given="a\nb\n\nc\n")
    assert sorted(piped.stdout.splitlines()) == ["a\ta", "b\tb", "c\tc"]


def test_ctrl_c_cancels_what_is_not_begun(run: Commands, calling: Settings, tmp_path: Path) -> None:
    worker = run.worker("datacenter", "-c", "1")
    run.until_ready(worker)
    log, told = tmp_path / "log", tmp_path / "told"
    program = (
        "from scraper.cli.main import main\nfrom scraper.plugins.functions.client import Client\n"
        "before = Client.map\n"
        f"Client.map = lambda self, f, i, **o: before(self, f, [[n, {str(log)!r}, {str(tmp_path / 'never')!r}] for n, _ in "
        "enumerate(i)], **o)\nmain()\n"
    )
    many = [str(n) for n in range(300)]
    with told.open("w") as err:
        process = start_program(program, "run", f"{MODULE}:noted", *many, out=err, err=err)
    try:
        until(lambda: log.exists() and len(begun(log)) >= 16, 60)
        process.send_signal(signal.SIGINT)
        assert process.wait(180) == 130 and "interrupted" in told.read_text()
    finally:
        process.kill()
        process.wait()
    (tmp_path / "never").touch()
    assert list(Client().map(f"{MODULE}:echo", ["after"])) == ["after"]
    assert len(begun(log)) < 300


@pytest.mark.usefixtures("installed_chromium")
def test_pages_on_browser_workers(
    shop: Callable[..., tuple[SampleShop, list[str]]], run: Commands, calling: Settings
) -> None:
    """A blank page of the function's own; guarded, and within its host's budget."""
    found, urls = shop(
        "--products", "6", **{"rate: unlimited": "rate: 4/s", "concurrency: 16": "concurrency: 2"}
    )
    run.until_ready(run.worker("browser"))
    truth = {record["url"]: record["name"] for record in found.truth().values()}
    # A browser's first page leaves a while after its permit, which would count for the pace.
    (warm,) = Client().map(f"{MODULE}:shown", urls[:1], queue="browser", site="demo", timeout_s=200)
    assert warm == ["about:blank", 200, truth[urls[0]]]
    found.forget()
    results = list(
        Client().map(f"{MODULE}:shown", urls, queue="browser", site="demo", timeout_s=200)
    )
    assert results == [["about:blank", 200, truth[url]] for url in urls]
    times = [at for at, target, _ in found.log() if target.startswith("/p/")]
    assert times[-1] - times[0] > 0.9 * (len(urls) - 1) / 4
    found.forget()
    inputs = ["http://169.254.169.254/", urls[0]]
    forbidden, private = Client().map(
        f"{MODULE}:shown", inputs, queue="browser", return_exceptions=True
    )
    assert forbidden.outcome == "forbidden_address"
    assert isinstance(private, CallError) and private.outcome in ("unreachable", "malformed"), (
        private.traceback
    )
    assert found.log() == [], "no site allows it"


def test_what_the_documentation_shows(
    shop: Callable[..., tuple[SampleShop, list[str]]],
    run: Commands,
    calling: Settings,
    tmp_path: Path,
) -> None:
    """Its module, a command and a program, from a folder of one's own."""
    _, urls = shop("--products", "5")
    text = (ROOT / "docs" / "how-to" / "functions.md").read_text()
    module = re.search(r"<!-- module: (\S+) -->\n```python\n(.*?)```", text, re.S)
    assert module is not None
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / module[1]).write_text(module[2])
    env = {"SCRAPER_FUNCTIONS": "shop_checks", "PYTHONPATH": str(folder)}
    run.until_ready(run.worker("datacenter", env=env))
    words = ("run", "shop_checks:title", "--json", "--site", "demo", *urls)
    lines = [json.loads(line) for line in run.scraper(*words, env=env).stdout.splitlines()]
    assert [line["input"] for line in lines] == urls and all(
        "Sample Shop" in line["result"] for line in lines
    )
