"""Pages that were made to be slow, read as a worker reads them: how long its loop is blocked, what
becomes of them, and that it goes on."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, TypeVar

import psutil
import pytest

from scraper.domain import Extracted, Fetched, Kind
from scraper.extract import FunctionFailed, TooSlow, compile_site
from scraper.extract.bounds import ISOLATED, ReadLimits
from scraper.extract.subprocess import pool as extraction_pool
from scraper.extract.subprocess.pool import ExtractionPool
from scraper.sites.loader import load_text
from tests.support.hostile_pages import CSS, HOSTILE, attributes
from tests.support.machine import everyday
from tests.support.servers import forked

T = TypeVar("T")
URL = "https://shop.example/p/1"
LASTMOD = datetime(2026, 2, 1, 8, 20, 30, tzinfo=UTC)
# What a page is given on the loop, and what it is given in all with room to spare. On top come
# steps that cannot be interrupted, as multiples of what the pages of `bounds` take on this machine.
STANDSTILL_S = 0.5
OUTCOME_S = 10.0
STANDSTILL_TIMES = 10
OUTCOME_TIMES = 60


def definition(field: str) -> str:
    return f"start: https://shop.example/\nlisting: {{products: a}}\nproduct: {{fields: {{x: {field}}}}}"


def fetched(body: bytes) -> Fetched:
    return Fetched(URL, 200, {}, body)


PROGRAM = "from scraper.extract.subprocess.__main__ import main\nmain()"


def start_forked(command: list[str], *, pass_fds: list[int], **_: object) -> forked.Forked:
    """Starts the process that the pool starts, without its imports. Its socket is its input."""
    assert command[1:] == ["-m", "scraper.extract.subprocess", str(pass_fds[0])]
    return forked.start_program(PROGRAM, "0", out=2, err=2, stdin=pass_fds[0])


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes of pools are forked. Tests that look at the start itself do not ask for it."""
    replaced = SimpleNamespace(Popen=start_forked, DEVNULL=subprocess.DEVNULL)
    monkeypatch.setattr(extraction_pool, "subprocess", replaced)


@pytest.fixture
def reader() -> Iterator[ExtractionPool]:
    reader = ExtractionPool()
    yield reader
    reader.close()


@pytest.fixture(scope="module", autouse=True)
def without_old_garbage() -> None:
    """Spares the loop a walk over all that thousands of tests before these left: it takes half a
    second of its own. It stays so, as after collecting tests (`pytest_collection`)."""
    gc.collect()
    gc.freeze()


async def standstill(work: Awaitable[T]) -> tuple[T | Exception, float]:
    """What it gives or raises, and how much CPU time the loop's thread took at most between two
    turns: a machine that others use pauses by itself now and then."""
    longest, turned = 0.0, time.thread_time()

    async def turn() -> None:
        nonlocal longest, turned
        while True:
            await asyncio.sleep(0.01)
            longest, turned = max(longest, time.thread_time() - turned), time.thread_time()

    turning = asyncio.create_task(turn())
    await asyncio.sleep(0)
    result: T | Exception
    try:
        result = await work
    except Exception as error:
        result = error
    await asyncio.sleep(0.02)
    turning.cancel()
    return result, longest


def read(
    reader: ExtractionPool,
    field: str,
    body: bytes,
    kind: Kind = Kind.PRODUCT,
    text: str | None = None,
) -> tuple[Extracted | Exception, float, float]:
    extractor = compile_site(load_text(text or definition(field), "shop.yaml"), ("page_functions",))
    began = time.monotonic()
    result, longest_s = asyncio.run(standstill(reader.read(extractor, kind, fetched(body), URL, 1)))
    return result, longest_s, time.monotonic() - began


class Bounds(NamedTuple):
    """`standstill_s`: CPU time of the loop's thread between two turns, which is what a page is given
    there and one step more. `outcome_s`: by the clock, which stops a page that takes too long."""

    standstill_s: float
    outcome_s: float


@pytest.fixture(scope="module")
def bounds(without_old_garbage: None) -> Bounds:
    """By a page with a tenth of the quadratic work that is done on the loop, and by an honest page
    that a new process reads."""
    on_loop = b"<h1>Teapot</h1>" + attributes(5_000)
    apart = b"<h1>Teapot</h1>" + b"<p class=n>x</p>" * 31_000
    pool = ExtractionPool()
    try:
        loop_s = min(read(pool, CSS, on_loop)[1] for _ in range(3))
        assert not pool._all, "it is read on the loop"
        outcome_s = read(pool, CSS, apart)[2]
        assert pool._all
    finally:
        pool.close()
    return Bounds(
        STANDSTILL_S + STANDSTILL_TIMES * loop_s,
        OUTCOME_S + OUTCOME_TIMES * outcome_s,
    )


# One of each way to be slow.
EVERYDAY = (
    "attributes",
    "siblings that are counted",
    "siblings of many names",
    "depth",
    "ends of what was never opened",
    "a regular expression of XPath",
    "XPath within many",
    "formatting that each block repeats",
    "texts of texts of a large page",
    "depth between places that a fixed step would read",
    "memory",
)


@pytest.fixture(scope="module")
def lasting_reader() -> Iterator[ExtractionPool]:
    """Its processes read page after page, but for those that a page ends."""
    reader = ExtractionPool()
    yield reader
    reader.close()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less time than in a crawl: what matters is who spends it."""
    limits = ReadLimits(0.5, isolated=True, deadline_s=ISOLATED.deadline_s)
    monkeypatch.setattr(extraction_pool, "ISOLATED", limits)


@pytest.mark.usefixtures("forking", "hurried")
@pytest.mark.parametrize("name", everyday(HOSTILE, *EVERYDAY))
def test_no_page_holds_the_loop(lasting_reader: ExtractionPool, bounds: Bounds, name: str) -> None:
    field, make = HOSTILE[name]
    result, longest_s, took_s = read(lasting_reader, field, make())
    assert longest_s < bounds.standstill_s
    assert took_s < bounds.outcome_s
    assert isinstance(result, TooSlow | Extracted)
    result, longest_s, _ = read(lasting_reader, CSS, b"<h1>Teapot")
    assert isinstance(result, Extracted) and result.products[0].data == {"x": "Teapot"}


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that must be read are, however loaded the machine is."""
    for limits in ("ISOLATED", "ISOLATED_SITEMAP"):
        monkeypatch.setattr(extraction_pool, limits, ReadLimits(60.0, True, 120.0))


@pytest.mark.usefixtures("forking", "unhurried")
@pytest.mark.parametrize("field", ["{css: h1}", "{xpath: //h1}"])
@pytest.mark.parametrize(("tags", "is_apart"), [(20_000, False), (80_000, True)])
def test_a_large_page_is_read_all_the_same(
    reader: ExtractionPool, field: str, tags: int, is_apart: bool
) -> None:
    body = b"<div><p class=n>x</p></div>" * (tags // 4) + b"<h1>Teapot</h1>"
    result, _, _ = read(reader, field, body)
    assert isinstance(result, Extracted) and result.products[0].data == {"x": "Teapot"}
    assert bool(reader._all) == is_apart


def test_a_page_with_a_large_script_is_read_here(reader: ExtractionPool) -> None:
    """Its words look like attributes."""
    state = b",".join(b'{"id": %d, "name": "a = b"}' % n for n in range(10_000))
    body = b"<script>x=[" + state + b"]</script><p>" * 3_000 + b"<h1>Teapot</h1>"
    result, _, _ = read(reader, CSS, body)
    assert isinstance(result, Extracted) and result.products[0].data == {"x": "Teapot"}
    assert not reader._all


def test_a_page_with_many_marked_words_is_read_here(reader: ExtractionPool) -> None:
    body = b'<p><i class="new"><b class=x>x</b></i></p>' * 2_000 + b"<h1>Teapot</h1>"
    result, _, _ = read(reader, CSS, body)
    assert isinstance(result, Extracted) and result.products[0].data == {"x": "Teapot"}
    assert not reader._all


@pytest.mark.usefixtures("forking")
def test_no_page_waits_for_threads_that_parse_on(
    reader: ExtractionPool, bounds: Bounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More pages than threads that parse for long; then a large one of a shop."""
    monkeypatch.setattr(
        extraction_pool, "ISOLATED", ReadLimits(2.0, isolated=True, deadline_s=bounds.outcome_s)
    )
    extractor = compile_site(load_text(definition(CSS), "shop.yaml"))
    deep = fetched(b"<h1>Teapot</h1>" + b"<div>" * 18_000)
    large = fetched(b"<h1>Teapot</h1>" + b"<p class=n>x</p>" * 6_000)

    async def read_all() -> tuple[list[object], float]:
        slow = [
            asyncio.create_task(reader.read(extractor, Kind.PRODUCT, deep, URL, 1))
            for _ in range(extraction_pool.PARSERS_MAX + 1)
        ]
        await asyncio.sleep(0)
        result, longest_s = await standstill(reader.read(extractor, Kind.PRODUCT, large, URL, 1))
        assert isinstance(result, Extracted)
        return await asyncio.gather(*slow, return_exceptions=True), longest_s

    outcomes, longest_s = asyncio.run(read_all())
    assert longest_s < bounds.standstill_s
    assert all(isinstance(outcome, TooSlow | Extracted) for outcome in outcomes)


@pytest.mark.usefixtures("forking", "hurried")
def test_a_page_that_is_too_slow_says_so(reader: ExtractionPool, bounds: Bounds) -> None:
    result, _, took_s = read(reader, "{css: .y, many: true}", b"<ul><li class=x>" * 150_000)
    assert isinstance(result, TooSlow) and took_s < bounds.outcome_s


@pytest.mark.usefixtures("forking", "unhurried")
def test_a_large_sitemap_is_read_apart(reader: ExtractionPool, bounds: Bounds) -> None:
    date = b"<lastmod>2026-02-01T10:20:30+02:00</lastmod>"
    urls = b"".join(
        b"<url><loc>https://shop.example/p/%d</loc>%s</url>" % (n, date) for n in range(12_000)
    )
    text = definition(CSS) + f"\nsitemap: {{urls: {URL}, products: /p/}}\n"
    for body in (b"<urlset>%s</urlset>" % urls, gzip.compress(b"<urlset>%s</urlset>" % urls)):
        result, longest_s, _ = read(reader, CSS, body, Kind.SITEMAP, text)
        assert isinstance(result, Extracted) and len(result.links) == 12_000
        assert {entry.lastmod for entry in result.named} == {LASTMOD}
    assert longest_s < bounds.standstill_s


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")

    def write(body: str) -> str:
        (tmp_path / "page_functions.py").write_text(f"import os, time\ndef product(page):\n{body}")
        return (
            "start: https://shop.example/\nlisting: {products: a}\n"
            "product: {function: 'page_functions:product'}\n"
        )

    return write


def test_a_function_is_called_apart(
    reader: ExtractionPool,
    functions: Callable[[str], str],
    capfd: pytest.CaptureFixture[str],
    unhurried: None,
) -> None:
    text = functions(
        "    print('seen')\n    os.write(1, b'and again')\n"
        "    yield {'id': 1, 'title': page.selector.css('h1::text').get(), 'pid': os.getpid()}\n"
    )
    result, _, _ = read(reader, "", b"<h1>Teapot", text=text)
    assert isinstance(result, Extracted)
    data = result.products[0].data
    assert data["title"] == "Teapot" and data["pid"] != os.getpid()
    assert "and again" in capfd.readouterr().err


def test_a_function_that_fails(
    reader: ExtractionPool, functions: Callable[[str], str], unhurried: None
) -> None:
    result, _, _ = read(
        reader, "", b"x", text=functions("    raise ValueError('a: b')\n    yield\n")
    )
    assert isinstance(result, FunctionFailed)
    assert str(result) == "page_functions:product: ValueError: a: b"


@pytest.mark.slow
def test_a_function_that_never_ends(
    reader: ExtractionPool, functions: Callable[[str], str], bounds: Bounds
) -> None:
    forever = functions("    while True: time.sleep(1)\n    yield 1\n")
    result, longest_s, took_s = read(reader, "", b"x", text=forever)
    assert isinstance(result, TooSlow)
    assert longest_s < bounds.standstill_s and took_s < bounds.outcome_s


def test_an_answer_names_no_other_class(
    reader: ExtractionPool, functions: Callable[[str], str], tmp_path: Path
) -> None:
    """As a process would answer that a page has taken over."""
    mark = tmp_path / "mark"
    text = functions(
        "    import pickle, socket, sys\n"
        "    class Evil:\n"
        f"        def __reduce__(self): return (os.system, ('touch {mark}',))\n"
        "    data = pickle.dumps(Evil())\n"
        "    asker = socket.socket(fileno=int(sys.argv[1]))\n"
        "    asker.sendall(len(data).to_bytes(8, 'big') + data)\n"
        "    time.sleep(60)\n    yield 1\n"
    )
    result, _, _ = read(reader, "", b"x", text=text)
    assert isinstance(result, TooSlow) and not mark.exists()


def readers() -> set[psutil.Process]:
    readers = set()
    for process in psutil.Process().children():
        with suppress(psutil.Error):
            if "scraper.extract.subprocess" in process.cmdline():
                readers.add(process)
    return readers


def test_the_processes_end_with_the_reader(reader: ExtractionPool) -> None:
    before = readers()
    read(reader, CSS, b"<p>x" * 61_000)
    (child,) = readers() - before
    reader.close()
    with suppress(psutil.NoSuchProcess):
        child.wait(10)
    assert not child.is_running()
