"""Commands that read pages which no parser comes back from: they end by a signal at once, and by
themselves with a sentence, and leave no process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from scraper.cli.main import main
from tests.support.hostile_pages import HOSTILE, attributes
from tests.support.machine import everyday
from tests.support.servers.forked import Forked, start_program
from tests.support.shops.static_shop import StaticShop
from tests.support.shops.things_shop import define

PATIENCE_S = 300.0
COMMANDS = {
    "try": ["try", "page.html"],
    "shell": ["shell", "page.html"],
    "new": ["new", "{url}/"],
    "record": ["sites", "record", "things"],
    "repair": ["repair", "things"],
}
PROGRAM = """
import signal, sys
from scraper.cli.main import main
from scraper.plugins.author import supervision
signal.signal(signal.SIGINT, signal.default_int_handler)
supervision.PAGE_CPU_S = float(sys.argv.pop(1))
supervision.MEMORY_MAX_BYTES = float(sys.argv.pop(1))
main()
"""


@contextmanager
def started(words: list[str], page_cpu_s: float, memory_max_bytes: float = 4e9) -> Iterator[Forked]:
    """A command as it is typed, with less time for a page."""
    limits = str(page_cpu_s), str(memory_max_bytes)
    typed = Path("typed")
    typed.write_text("css('h1')\n")
    with typed.open() as stdin, Path("out").open("w") as out:
        process = start_program(PROGRAM, *limits, *words, out=out, err=out, stdin=stdin)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def words_of(name: str, shop: StaticShop, body: bytes) -> list[str]:
    """The command's words, on a shop all of whose pages are this one."""
    define(shop)
    if name == "repair":
        # A repair is proven on more pages than the shop has things.
        for n in range(8, 21):
            shop.pages["/"] += f'<a class="p" href="/p/{n}">Thing {n}</a>'
            shop.pages[f"/p/{n}"] = f"<h1>Thing {n}</h1><b class=price>£{n}.50</b>"
        done = CliRunner().invoke(main, ["sites", "record", "things"])
        assert done.exit_code == 0, done.output
    Path("page.html").write_bytes(body)
    for path in set(shop.pages) - {"/robots.txt"}:
        shop.pages[path] = body.decode()
    return [word.format(url=shop.url) for word in COMMANDS[name]]


def busy_child(process: Forked) -> psutil.Process:
    """The process apart, once it is in the middle of the page."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        for child in psutil.Process(process.pid).children():
            before = child.cpu_times().user
            time.sleep(0.2)
            if child.cpu_times().user - before > 0.05 and child.cpu_times().user > 0.7:
                return child
        time.sleep(0.1)
    raise AssertionError(Path("out").read_text())


@pytest.mark.parametrize(
    ("name", "number"),
    everyday(
        product(COMMANDS, (signal.SIGTERM, signal.SIGINT)),
        ("try", signal.SIGINT),
    ),
)
def test_a_signal_ends_it_at_once(shop: StaticShop, name: str, number: signal.Signals) -> None:
    words = words_of(name, shop, attributes(300_000))
    with started(words, page_cpu_s=1000) as process:
        child = busy_child(process)
        process.send_signal(number)
        # Reading goes on for minutes of CPU time; a second may pass.
        used_s = child.cpu_times().user
        assert process.wait(PATIENCE_S) in (128 + number, 1), Path("out").read_text()
        assert used_s < 60
        assert not child.is_running()
    assert "Traceback" not in Path("out").read_text()


@pytest.mark.parametrize("name", everyday(COMMANDS, "new"))
def test_it_ends_by_itself_with_a_sentence(shop: StaticShop, name: str) -> None:
    words = words_of(name, shop, attributes(300_000))
    with started(words, page_cpu_s=1) as process:
        assert process.wait(PATIENCE_S) == 1
    said = Path("out").read_text()
    assert "reading the page took longer than 1 s" in said and "Traceback" not in said


@pytest.mark.parametrize("page", everyday(HOSTILE, "attributes", "XPath in XPath", "memory"))
def test_hostile_pages(shop: StaticShop, page: str) -> None:
    words = words_of("try", shop, HOSTILE[page][1]())
    with started(words, page_cpu_s=0.3) as process:
        assert process.wait(PATIENCE_S) in (0, 1)
    assert "Traceback" not in Path("out").read_text()


def test_a_page_that_ends_the_process(shop: StaticShop) -> None:
    words = words_of("try", shop, attributes(300_000))
    with started(words, page_cpu_s=1000) as process:
        busy_child(process).send_signal(signal.SIGSEGV)
        assert process.wait(PATIENCE_S) == 1
    assert "the process that read it ended by signal 11" in Path("out").read_text()


@pytest.mark.parametrize("name", ["repair", "try"])
def test_pages_that_take_all_memory(shop: StaticShop, name: str) -> None:
    # Parsing alone takes the memory: no machine is so slow that its CPU time ends before.
    words = words_of(name, shop, b"<p>" * 2_000_000)
    # The listing has its links still.
    shop.pages["/"] = "".join(f'<a class="p" href="/p/{n}">Thing {n}</a>' for n in range(1, 21))
    with started(words, page_cpu_s=1000, memory_max_bytes=3e8) as process:
        assert process.wait(PATIENCE_S) == 1
    shown = Path("out").read_text()
    assert "took more than 300 MB of memory" in shown and "Traceback" not in shown
