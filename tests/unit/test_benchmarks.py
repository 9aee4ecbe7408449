"""The benchmark's arithmetic, its checks and its tables; that its shop is the sample shop; that
peers are locked."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks import scaling, truth
from benchmarks.contenders import PEERS
from benchmarks.definition import FIELDS
from benchmarks.results import WIDTH, Line, Run, rotated, table
from benchmarks.shop import Server
from scraper.demo.catalogue import Catalogue
from scraper.demo.faults import Options
from scraper.demo.shop import Shop

PEERS_FOLDER = Path(__file__).parents[2] / "benchmarks" / "peers"
GENERATION = Catalogue(120).at(1)
TRUTH = {str(item.id): item.record("http://shop") for item in GENERATION.items.values()}


def stored(**changes: Any) -> dict[str, dict[str, Any]]:
    """Every row as a contender stores it; `changes` for the first one."""
    rows = {key: {field: row[field] for field in FIELDS} for key, row in TRUTH.items()}
    rows[min(rows)] |= changes
    return rows


def test_rows_that_are_the_truth_are_a_result() -> None:
    rows = stored()
    assert truth.missing(rows, TRUTH) is None
    for row in rows.values():
        row["price"] = float(row["price"])  # ours are JSON numbers
    assert truth.missing(rows, TRUTH) is None


@pytest.mark.parametrize("field", FIELDS)
def test_a_wrong_value_in_any_field_is_no_result(field: str) -> None:
    for wrong in (None, "9999.99"):
        assert str(truth.missing(stored(**{field: wrong}), TRUTH)).startswith(
            f"1 row wrong ({field} of 1001 is {wrong!r}"
        )


def test_lost_and_invented_rows_are_counted() -> None:
    rows = stored()
    for key in sorted(rows)[:3]:
        del rows[key]
    rows["1"] = {}
    assert truth.missing(rows, TRUTH) == "3 rows missing, 1 row too many"


def test_what_is_asked_for_is_each_page_once() -> None:
    expected = truth.all_paths(GENERATION)
    moved = [item for item in GENERATION.items.values() if item.old_slug]
    assert moved, "the shop has redirects, whose targets are asked for as well"
    assert len(expected) == 6 + 120 + 3 + len(moved)
    counts = dict.fromkeys(expected, 1)
    assert truth.asked_amiss(counts | {"/robots.txt": 1}, expected) is None
    counts[moved[0].path] = 2
    counts["/p/9-x"] = 1
    assert truth.asked_amiss(counts, expected) == "1 twice or more, 1 unknown"
    del counts["/all?page=2"]
    assert (
        truth.asked_amiss(counts, expected) == "1 page never asked for, 1 twice or more, 1 unknown"
    )


def line(name: str, *cpu_s: float, **more: Any) -> Line:
    return Line(
        name, name.title(), [Run(pages=1000, wall_s=2, cpu_s=seconds, **more) for seconds in cpu_s]
    )


def test_a_line_is_its_runs_median_and_extremes() -> None:
    found = line("scrapy", 4, 2, 5)
    assert found.middle("per_cpu_s") == 250
    assert found.spread("per_cpu_s") == (200, 500)
    told = found.as_json()
    assert (told["pages_per_cpu_s"], told["min"], told["max"], len(told["runs"])) == (
        250,
        200,
        500,
        3,
    )


def test_one_bad_run_is_no_result() -> None:
    found = line("scrapy", 4, 2)
    found.runs.append(Run(problem="3 rows missing"))
    assert found.problem == "3 rows missing"
    assert "pages_per_cpu_s" not in found.as_json()
    assert Line("scrapy", "Scrapy").problem == "not run"


def test_the_table_is_best_first_and_says_what_has_no_result() -> None:
    lines = [
        line("slow", 4.0),
        line("ours", 1.0, 1.25, worker_cpu_s=0.5),
        Line("gone", "Gone", [Run(problem="not installed (no gone in peers/.venv)")]),
        line("fast", 0.5, note="2 twice or more"),
    ]
    said = table(lines).splitlines()
    assert [row.split()[0] for row in said[2:]] == ["Fast", "Ours", "its", "Slow", "Gone", "Fast:"]
    assert re.search(r"Ours +900 +800–1000 +1\.1 +2\.0", said[3])
    assert re.search(r"its worker process alone +2,000 +2000–2000 +0\.5$", said[4])
    assert said[6] == f"{'Gone':<34}  no result: not installed (no gone in peers/.venv)"
    assert said[7] == "Fast: 2 twice or more"


def test_tables_fit_a_hundred_columns() -> None:
    big = {
        "worker_cpu_s": 123.4,
        "peak_mb": 12345,
        "postgres_cpu_s": 999.9,
        "valkey_cpu_s": 999.9,
        "note": "y" * 200,
    }
    lines = [
        Line(name, peer.title, [Run(pages=99_999, wall_s=9999.9, cpu_s=9.0, **big)] * 2)
        for name, peer in PEERS.items()
    ]
    lines.append(Line("lost", "this application, second crawl", [Run(problem="x" * 200)]))
    assert max(map(len, table(lines).splitlines())) <= WIDTH
    runs = [Run(pages=99_999, wall_s=1.0, cpu_s=9.0, worker_cpu_s=2.0, postgres_cpu_s=1.0)]
    assert max(map(len, scaling.table({1: runs, 2: runs}).splitlines())) <= WIDTH


def test_two_workers_against_one() -> None:
    one = Run(
        pages=1000,
        wall_s=1.0,
        cpu_s=1.2,
        worker_cpu_s=1.0,
        postgres_cpu_s=0.2,
        valkey_cpu_s=0.1,
        shop_cpu_s=0.1,
    )
    two = Run(pages=1000, wall_s=0.625, cpu_s=1.25, worker_cpu_s=1.0, postgres_cpu_s=0.2)
    said = scaling.table({1: [one], 2: [two]}).splitlines()
    assert said[2].split() == ["1", "worker", "1,000", "1,000", "1.00", "0.40", "0.20", "0.20"]
    assert said[3].split() == ["2", "workers", "1,600", "1,000", "1.60", "0.32", "0.32", "0.40"]
    assert said[4] == "2 workers: 1.60 times the pages of one."
    assert "no result: lost" in scaling.table({1: [one], 2: [Run(problem="lost")]})


def test_every_contender_has_its_turn_in_each_round_and_another_one_begins() -> None:
    names = ["ours", *PEERS]
    orders = [rotated(names, round_, 3) for round_ in range(3)]
    assert all(sorted(order) == sorted(names) for order in orders)
    assert len({order[0] for order in orders}) == 3


@pytest.fixture
def server() -> Iterator[Server]:
    """The benchmark's shop, served by a thread of ours until the test ends."""
    found = Server(products=120, latency_ms=0, port=0)
    thread = threading.Thread(target=found.run, daemon=True)
    thread.start()
    yield found
    found.stop()
    thread.join(10)
    assert not thread.is_alive()


def answered(server: Server, target: str) -> Any:
    return httpx.get(f"{server.url}{target}", timeout=10).json()


def test_the_benchmarks_shop_is_the_sample_shop(server: Server) -> None:
    sample = Shop(Catalogue(120), Options(), server.url)
    targets = sorted(truth.all_paths(sample.generation))
    with httpx.Client(base_url=server.url, timeout=10) as client:
        for target in targets:
            found, meant = client.get(target), sample.page(target.encode())
            assert (found.status_code, found.content) == (meant.status, meant.body)
        query = client.get(f"{targets[-1]}?utm_source=listing")
        assert query.content == sample.page(targets[-1].encode()).body
    assert answered(server, "/_control/served") == len(targets) + 1
    counts: Mapping[str, int] = answered(server, "/_control/counts")
    assert counts == dict.fromkeys(targets, 1) | {targets[-1]: 2}
    assert answered(server, "/_control/truth") == sample.catalogue.truth(1, server.url)
    answered(server, "/_control/reset")
    assert answered(server, "/_control/counts") == {}


def test_the_benchmarks_shop_answers_requests_that_come_at_once_or_in_pieces(
    server: Server,
) -> None:
    with socket.create_connection(
        ("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=10
    ) as client:
        request = b"GET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\n"
        client.sendall(request + request + request[:20])
        client.sendall(request[20:])
        said = b""
        while said.count(b"Sitemap:") < 3:
            said += client.recv(65_536)
    assert said.count(b"HTTP/1.1 200 OK") == 3


def test_peers_are_locked_with_hashes_and_name_no_index() -> None:
    lock = (PEERS_FOLDER / "requirements.txt").read_text()
    assert "://" not in lock and not re.search(r"^-", lock, re.M)
    locked = set(re.findall(r"^([\w.-]+)==[^ ]+(?: ;[^\\]+)? \\$", lock, re.M))
    wanted = {
        re.split(r"[\[<>=]", name)[0]
        for name in (PEERS_FOLDER / "requirements.in").read_text().split()
    }
    assert wanted <= locked
    pins = re.split(r"^(?=\S)", lock, flags=re.M)[1:]
    assert all("--hash=sha256:" in pin for pin in pins)


def test_every_peer_has_its_file_and_says_whose_advice_it_follows() -> None:
    for peer in PEERS.values():
        text = (PEERS_FOLDER / peer.command[0]).read_text()
        assert re.match(r'"""[\s\S]*?(documentation|guide|README)[\s\S]*?"""', text), peer.name
