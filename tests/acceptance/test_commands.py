"""The commands as they are typed: what they print, where to, and what they exit with."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryFile

import httpx
import psutil
import pytest
import sqlalchemy as sa

from scraper.settings import Settings
from scraper.views import crawl_progress as progress
from tests.acceptance.commands import Commands, assert_counted, commands, processes_of, until
from tests.acceptance.conftest import SampleShop
from tests.support.making import a_site, keep, rows
from tests.support.servers import forked
from tests.support.servers.forked import ROOT
from tests.support.servers.ports import unused_port

FIELDS = ["zeta", "title", "price", "price_currency", "tags"]
TIMES = ["first_seen_at", "changed_at", "fetched_at", "delisted_at"]
EVIL = {
    "equals": '=HYPERLINK("http://evil.example","x")',
    "plus": "+1+1",
    "minus": "-2+3",
    "at": "@SUM(1)",
    "tab": "\t=1",
    "comma": 'a, "quoted"\nline',
}


@pytest.fixture
def stored(engine: sa.Engine) -> None:
    """A site "shop" with a product for each evil text, its fields defined in an order that is not
    the alphabet's."""
    fields = {
        "zeta": "h2",
        "title": "h1",
        "price": {"css": "b", "type": "price"},
        "tags": {"css": "i", "type": "list"},
    }
    keep(engine, a_site(product={"fields": fields}), {
        external_id: {"title": text, "price": Decimal("19.90"), "price_currency": "EUR", "tags": ["a", "b"], "more": 7}
        for external_id, text in EVIL.items()
    })  # fmt: skip


# --- what is there, shown and exported


def test_products_history_and_status(run: Commands, stored: None) -> None:
    rows = run.json("products", "shop", "--limit", "3")
    assert [row["id"] for row in rows] == sorted(EVIL)[:3]
    assert str(rows[0]["price"]) == "19.90" and rows[0]["tags"] == ["a", "b"]
    table = run.scraper("products", "shop").stdout
    assert all(external_id in table for external_id in EVIL) and "19.90" in table
    (version,) = run.json("history", "shop", "plus")
    assert (
        version["version"] == 1
        and version["data"]["title"] == "+1+1"
        and version["valid_to"] is None
    )
    assert "+1+1" in run.scraper("history", "shop", "plus").stdout
    (crawl,) = run.crawls()
    assert (crawl["site"], crawl["phase"], crawl["products_new"], crawl["total"]) == (
        "shop",
        "fetching",
        6,
        6,
    )
    running = [other["id"] for other in run.crawls("shop", "--limit", "0")]
    assert running == [crawl["id"]], "one that runs is always there"
    assert "shop" in run.scraper("status").stdout


def test_export_keeps_its_columns_and_defuses_formulas(
    run: Commands, stored: None, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    done = run.scraper("export", "shop", "--format", "csv", "-o", str(out))
    assert done.stdout == "" and "6 products" in done.stderr
    text = out.read_bytes().decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == ["id", "url", *FIELDS, "more", *TIMES]
    titles = {row[0]: row[3] for row in rows[1:]}
    for external_id, evil in EVIL.items():
        assert titles[external_id] == (evil if external_id == "comma" else "'" + evil)
    assert {row[4] for row in rows[1:]} == {"19.90"} and {row[6] for row in rows[1:]} == {
        '["a","b"]'
    }
    assert run.scraper("export", "shop", "--format", "csv").stdout == text.replace("\r\n", "\n"), (
        "as text"
    )
    lines = [
        json.loads(line, parse_float=Decimal)
        for line in run.scraper("export", "shop").stdout.splitlines()
    ]
    assert [line["id"] for line in lines] == sorted(EVIL)
    assert {line["id"]: line["title"] for line in lines} == EVIL
    assert list(lines[0]) == rows[0] and str(lines[0]["price"]) == "19.90"


def test_export_to_a_reader_that_leaves(run: Commands, engine: sa.Engine) -> None:
    keep(engine, a_site(), {f"{n:05d}": {"title": "x" * 500} for n in range(3000)})
    for form in ("csv", "jsonl"):
        reads, writes = os.pipe()
        with TemporaryFile("w+") as errors, open(reads) as out:
            argv = ["scraper", "export", "shop", "--format", form]
            process = forked.start(argv, run.environ(), writes, errors.fileno())
            os.close(writes)
            assert out.readline()
            out.close()
            assert process.wait(120) == 0
            errors.seek(0)
            assert errors.read() == ""
    count = len(run.scraper("export", "shop").stdout.splitlines())
    assert count == 3000


def test_sites_list_check_schema(run: Commands, environment: Settings, tmp_path: Path) -> None:
    assert "no definitions in" in run.scraper("sites", "check", code=2).stderr
    good = environment.sites_dir / "good.yaml"
    good.write_text(
        "start: https://good.example/\nlisting: {products: a}\nproduct: {fields: {title: h1}}\n"
    )
    assert "1 definition checked" in run.scraper("sites", "check").stdout
    (listed,) = run.json("sites", "list")
    assert listed["name"] == "good" and listed["start"] == ["https://good.example/"]
    assert "https://good.example/" in run.scraper("sites", "list").stdout
    schema = json.loads(run.scraper("sites", "schema").stdout)
    run.scraper("sites", "schema", "-o", str(tmp_path / "schema.json"))
    assert (
        json.loads((tmp_path / "schema.json").read_text()) == schema
        and "product" in schema["properties"]
    )


# --- what goes wrong


def test_a_broken_definition_is_reported_whole(run: Commands, environment: Settings) -> None:
    path = environment.sites_dir / "broken.yaml"
    path.write_text(
        "start: ftp://x.example/\nrate: often\nlisting:\n  products: 'a['\nproduct:\n  fields:\n    title: {csss: h1}\n"
    )
    for words in (
        ("sites", "check"),
        ("sites", "check", str(path)),
        ("crawl", "broken"),
        ("sites", "list"),
    ):
        errors = run.scraper(*words, code=2).stderr
        for line, key in (
            (1, "start"),
            (2, "rate"),
            (4, "listing.products"),
            (7, "product.fields.title"),
        ):
            assert re.search(rf"broken\.yaml:{line}: {re.escape(key)}\S*: ", errors), errors


def test_what_is_unknown_is_said_so(
    run: Commands, environment: Settings, stored: None, tmp_path: Path
) -> None:
    """Another site's broken file does not hide that this one is unknown, but is mentioned."""
    (environment.sites_dir / "other.yaml").write_text("start: 1\n")
    errors = run.scraper("crawl", "nowhere", code=2).stderr
    assert "no site named 'nowhere'" in errors and "other.yaml" in errors
    for command in ("products", "export"):
        assert "no site named 'nowhere'" in run.scraper(command, "nowhere", code=2).stderr
    assert "no site named 'nowhere'" in run.scraper("history", "nowhere", "1", code=2).stderr
    assert "no product 'x'" in run.scraper("history", "shop", "x", code=2).stderr
    assert "no crawl has the id 99" in run.scraper("stop", "99", code=2).stderr
    assert "No such command" in run.scraper("crwal", code=2).stderr
    folder = tmp_path / "missing" / "out.csv"
    assert (
        f"cannot write {folder}: No such file"
        in run.scraper("export", "shop", "-o", str(folder), code=1).stderr
    )


def test_servers_that_do_not_answer(
    run: Commands, environment: Settings, empty_database: str
) -> None:
    port = unused_port()
    away = {"DATABASE_URL": f"postgresql://ann:s3cret@127.0.0.1:{port}/shop"}
    for words in (("status",), ("migrate",), ("up",)):
        errors = run.scraper(*words, code=3, env=away).stderr
        assert f"127.0.0.1:{port}" in errors and "DATABASE_URL" in errors and "s3cret" not in errors
    errors = run.scraper("status", code=3, env={"DATABASE_URL": empty_database}).stderr
    assert "scraper migrate" in errors and "has no tables" in errors
    (environment.sites_dir / "good.yaml").write_text(
        "start: https://good.example/\nlisting: {products: a}\nproduct: {fields: {title: h1}}\n"
    )
    errors = run.scraper(
        "crawl", "good", code=3, env={"REDIS_URL": f"redis://:s3cret@127.0.0.1:{port}/0"}
    ).stderr
    assert f"127.0.0.1:{port}" in errors and "REDIS_URL" in errors and "s3cret" not in errors
    assert run.crawls() == [], "no crawl is opened whose messages cannot be sent"
    errors = run.scraper(
        "status", code=2, env={"SCRAPER_LEASE_S": "1", "DATABASE_URL": "mysql://x"}
    ).stderr
    assert "SCRAPER_LEASE_S" in errors and "DATABASE_URL" in errors
    wrong = run.worker("datacenter", env={"SCRAPER_LEASE_S": "x"})
    assert wrong.wait(60) == 2
    assert "SCRAPER_LEASE_S" in run.log(wrong) and "Traceback" not in run.log(wrong)
    worker = run.worker("datacenter", env=away)
    assert worker.wait(120) == 3
    assert f"127.0.0.1:{port}" in run.log(worker) and "s3cret" not in run.log(worker)


def test_an_empty_home_says_what_to_type(environment: Settings, tmp_path: Path) -> None:
    none = {"DATABASE_URL": "", "REDIS_URL": "", "SCRAPER_HOME": str(tmp_path / "none")}
    with commands(tmp_path / "logs", **none) as run:
        assert "scraper up" in run.scraper("status", code=3).stderr


# --- crawls


def test_a_crawl_with_workers_of_its_own(
    run: Commands,
    engine: sa.Engine,
    environment: Settings,
    sample_shop: Callable[..., SampleShop],
    tmp_path: Path,
) -> None:
    sample_shop("--products", "50")
    output = tmp_path / "products.csv"
    done = run.scraper("crawl", "demo", "--local", "-o", str(output))
    with output.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 50
    assert "no worker serves coordinator, datacenter, residential: starting workers" in done.stderr
    assert (
        "50 new" in done.stdout
        and "\x1b" not in done.stdout + done.stderr
        and "\r" not in done.stderr
    )
    # beat's own may end a moment later
    until(lambda: processes_of(environment.home_dir, "celery") == [], 5)
    (crawl,) = run.crawls()
    assert crawl["status"] == "completed" and crawl["products_new"] == 50
    assert_counted(engine, crawl)


def test_a_crawl_outlives_the_workers_of_another_command(
    run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> None:
    """The second crawl borrows the first's workers, and starts its own when they end."""
    slow = {"rate: unlimited": "rate: 10/s"}
    sample_shop("--products", "100", changes=slow)
    sample_shop("--products", "300", changes=slow, name="longer")
    first = run.start("scraper", "crawl", "demo", "--local", "--wait")
    until(lambda: "starting workers" in run.log(first), 30)
    until(lambda: rows(engine, "SELECT FROM crawls WHERE discovery_done + product_done > 0"), 60)
    second = run.start("scraper", "crawl", "longer", "--local", "--wait")
    until(lambda: "longer: crawl" in run.log(second), 30)
    assert first.wait(240) == 0, run.log(first)
    assert second.wait(240) == 0, run.log(second)
    assert "starting workers" in run.log(second)
    for crawl, products in zip(run.crawls(), (300, 100), strict=True):
        assert (crawl["status"], crawl["products_new"]) == ("completed", products)
        assert_counted(engine, crawl)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://127.0.0.1:9/", "robots.txt: connection refused"),
        ("http://no-such-shop.invalid/", "robots.txt: name or service not known"),
    ],
)
def test_a_shop_that_cannot_be_reached_is_named_at_once(
    run: Commands, environment: Settings, address: str, reason: str
) -> None:
    (environment.sites_dir / "away.yaml").write_text(
        f"start: {address}\nallow_private: true\nlisting: {{products: a}}\n"
        "product: {fields: {title: h1}}\n"
    )
    run.coordinator()
    run.until_ready(run.worker("datacenter"))
    waiting = run.start("scraper", "crawl", "away", "--wait")
    until(lambda: reason in run.log(waiting), 30)
    until(lambda: "`scraper stop 1` ends the crawl" in run.log(waiting), 60)
    (crawl,) = run.crawls()
    assert reason in crawl["last_error"] and crawl["status"] == "running"
    assert reason in run.scraper("status", "away").stdout
    run.scraper("stop", "1")
    assert waiting.wait(120) == 4


def test_interrupted_and_stopped(
    run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop], environment: Settings
) -> None:
    """Ctrl-C leaves the crawl going; `scraper stop` ends it: within seconds the shop hears nothing
    more."""
    shop = sample_shop(
        "--products", "1000", "--latency-ms", "200", changes={"concurrency: 16": "concurrency: 4"}
    )
    run.coordinator()
    run.worker("residential,datacenter")
    waiting = run.start("scraper", "crawl", "demo", "--wait")
    until(lambda: len(shop.log()) > 10, 40)
    crawl_id = 1
    assert run.end(waiting, signal.SIGINT) == 130
    told = run.log(waiting)
    assert f"`scraper stop {crawl_id}` ends it" in told and "Traceback" not in told
    seen = len(shop.log())
    until(lambda: len(shop.log()) > seen + 10, 20)
    again = run.scraper("crawl", "demo")
    assert "was already running" in again.stderr and again.stdout == f"{crawl_id}\n"

    waiting = run.start("scraper", "crawl", "demo", "--wait")
    until(lambda: "pages/s" in run.log(waiting), 20)
    assert run.scraper("stop", str(crawl_id)).stdout == f"crawl {crawl_id} stopped\n"
    assert waiting.wait(120) == 4
    assert f"crawl {crawl_id} of demo stopped: stopped by hand" in run.log(waiting)

    def hears_nothing() -> bool:
        seen = len(shop.log())
        time.sleep(2.5)
        return len(shop.log()) == seen

    until(hears_nothing, 4)
    assert len(shop.log()) < 1000
    crawl = progress.as_json(progress.read_one(engine, crawl_id))
    assert crawl["status"] == "stopped" and crawl["dropped"] > 0
    assert_counted(engine, crawl)
    assert "is not running: it is stopped" in run.scraper("stop", str(crawl_id), code=2).stderr


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
        (signal.SIGKILL, -9),
    ],
)
def test_a_command_that_ends_takes_its_workers_with_it(
    number: signal.Signals,
    code: int,
    run: Commands,
    sample_shop: Callable[..., SampleShop],
    environment: Settings,
) -> None:
    shop = sample_shop(
        "--products", "500", "--latency-ms", "200", changes={"concurrency: 16": "concurrency: 4"}
    )
    waiting = run.start("scraper", "crawl", "demo", "--wait", "--local")
    until(lambda: len(shop.log()) > 10, 40)
    assert processes_of(environment.home_dir, "celery") != []
    assert run.end(waiting, number) == code
    # Of a command that is killed the workers notice it within a second, and hand back.
    until(lambda: processes_of(environment.home_dir, "celery") == [], 40)
    seen = len(shop.log())
    time.sleep(1)
    assert len(shop.log()) == seen
    (crawl,) = run.crawls()
    assert crawl["status"] == "running", "it waits for workers"


# --- one machine without servers


@pytest.mark.timeout(600)
def test_embedded_servers(sample_shop: Callable[..., SampleShop], tmp_path: Path) -> None:
    """up, up, crawl, down, up: from nothing, and the data is still there."""
    home = tmp_path / "e"
    sample_shop("--products", "40")
    with commands(tmp_path / "logs", DATABASE_URL="", REDIS_URL="", SCRAPER_HOME=str(home)) as run:
        try:
            first, second = run.scraper("up").stdout, run.scraper("up").stdout
            assert first == second and "postgres: running" in first and "valkey: running" in first
            assert (
                "password in" in first
                and (home / "flower-password").read_text().strip() not in first
            )
            done = run.scraper("crawl", "demo", "--wait", timeout_s=90)
            assert "40 new" in done.stdout
            exported = run.scraper("export", "demo").stdout
            assert len(exported.splitlines()) == 40
            assert "postgres: stopped" in run.scraper("down").stdout
            assert processes_of(home) == []
            assert "scraper up" in run.scraper("status", code=3).stderr
            run.scraper("up")
            assert run.scraper("export", "demo").stdout == exported
        finally:
            run.scraper("down", code=None)
    assert processes_of(home) == []


@pytest.mark.timeout(600)
def test_two_crawls_at_once_on_embedded_servers(
    sample_shop: Callable[..., SampleShop], tmp_path: Path
) -> None:
    """The second finds workers of the first, which end before it."""
    shop = sample_shop("--products", "20", "--latency-ms", "100", name="alpha")
    sample_shop("--products", "60", "--latency-ms", "1000", name="beta")
    home = tmp_path / "e"
    with commands(tmp_path / "logs", DATABASE_URL="", REDIS_URL="", SCRAPER_HOME=str(home)) as run:
        try:
            run.scraper("up")
            with ThreadPoolExecutor(2) as pool:
                words = {
                    name: ("crawl", name, "-o", str(tmp_path / f"{name}.csv"))
                    for name in ("alpha", "beta")
                }
                first = pool.submit(run.scraper, *words["alpha"], timeout_s=90)
                until(lambda: len(shop.log()) > 3, 40)
                second = pool.submit(run.scraper, *words["beta"], timeout_s=90)
                assert "20 new" in first.result().stdout and "60 new" in second.result().stdout
            sizes = [len((tmp_path / f"{name}.csv").read_text().splitlines()) for name in words]
            assert sizes == [21, 61]
        finally:
            run.scraper("down", code=None)
    assert processes_of(home) == []


# --- beat and Flower, as typed


def test_beat(run: Commands, engine: sa.Engine, environment: Settings) -> None:
    """A beat of its own ticks; a second coordinator takes over the definitions. It writes no
    schedule file."""
    before = set(os.listdir(ROOT))
    beat = run.start("celery", "-A", "scraper", "beat")
    run.worker("coordinator")
    (environment.sites_dir / "nightly.yaml").write_text(
        "start: https://nightly.example/\nschedule: '0 6 * * *'\nlisting: {products: a}\nproduct: {fields: {t: h1}}\n"
    )

    def taken_over() -> bool:
        with engine.connect() as connection:
            return (
                connection.execute(
                    sa.text("SELECT count(*) FROM sites WHERE name = 'nightly'")
                ).scalar()
                == 1
            )

    until(taken_over, 40)
    assert beat.poll() is None and run.end(beat) == 0
    assert not [name for name in set(os.listdir(ROOT)) - before if name.startswith("celerybeat")]


@pytest.mark.parametrize(
    "words",
    [
        ("celery", "-A", "scraper", "flower", "--port={}"),
        (sys.executable, "-m", "scraper.plugins.demo", "--port", "{}"),
        ("scraper", "metrics", "--port", "{}"),
    ],
    ids=["flower", "sample shop", "metrics"],
)
def test_a_port_that_is_taken_is_said_in_one_line(words: tuple[str, ...], run: Commands) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = run.start(*(word.format(port) for word in words))
        assert process.wait(120) not in (0, None)
    lines = [line for line in run.log(process).splitlines() if "Error" in line or port in line]
    assert len(lines) == 1 and "(fix: " in lines[0] and "in use" in lines[0], lines
    assert "Traceback" not in run.log(process)


def test_flower(run: Commands, environment: Settings) -> None:
    port = unused_port()
    flower = run.start("celery", "-A", "scraper", "flower", f"--port={port}")
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert flower.poll() is None, run.log(flower)
        try:
            return httpx.get(f"{url}/healthcheck", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    until(answers, 40)
    listening = {
        c.laddr[:2]
        for c in psutil.Process(flower.pid).net_connections()
        if c.status == psutil.CONN_LISTEN
    }
    assert listening == {("127.0.0.1", port)}
    assert httpx.get(url, timeout=180).status_code == 401
    assert httpx.get(url, auth=("admin", "wrong"), timeout=180).status_code == 401
    kept = environment.home_dir / "flower-password"
    password = kept.read_text().strip()
    assert kept.stat().st_mode & 0o777 == 0o600 and len(password) >= 20
    assert httpx.get(f"{url}/workers", auth=("admin", password), timeout=180).status_code == 200
    assert httpx.get(f"{url}/api/workers", timeout=180).status_code == 401
    assert password not in run.log(flower)
    run.end(flower)
