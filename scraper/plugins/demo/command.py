"""`scraper demo`: two real crawls of the sample shop through every real part, with their results.

Starts what is not running yet (servers, shop, coordinator, workers, Flower), and stops what it
started.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
import httpx
import sqlalchemy as sa

from scraper.actions import deletion, overrides
from scraper.cli.common.shared import load_settings
from scraper.cli.common.tables import print_table
from scraper.cli.crawl.wait import follow_crawl
from scraper.cli.data.products import print_products, read_products
from scraper.coordinator import plan
from scraper.errors import ConfigError, CrawlFailedError, ScraperError, ServerUnavailableError
from scraper.extract.adapter import origin
from scraper.frontier import crawls, sites
from scraper.frontier.progress import CrawlProgress
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.infra.services import FlowerLogin, LocalServers
from scraper.plugins.demo import definition, processes
from scraper.process import servers
from scraper.registry import find_service, require_service
from scraper.runtime import fleet
from scraper.runtime.send import send
from scraper.settings import Settings
from scraper.sites import loader
from scraper.sites.definition import Site
from scraper.views import crawl_progress as progress

FLOWER_PORT = 5555
READY_S = 30.0
LATENCY_MS = 15
FAIL_SHARE = 0.03
SHOWN = 8

PRICE_CHANGES = sa.text("""
SELECT p.external_id, p.data ->> 'name' AS name, v.data ->> 'price' AS before,
       p.data ->> 'price' AS after, p.data ->> 'price_currency' AS currency,
       count(*) OVER () AS total
  FROM products p JOIN product_versions v ON v.product_id = p.id AND v.version = p.version - 1
 WHERE p.crawl_id = :crawl AND v.crawl_id = :crawl
   AND v.data ->> 'price' IS DISTINCT FROM p.data ->> 'price'
 ORDER BY p.external_id LIMIT :shown
""")


@click.command()
@click.option("--keep", is_flag=True, help="Leave servers, workers and Flower running afterwards.")
@click.option(
    "--stop",
    "stop_",
    is_flag=True,
    help="Stop what an earlier --keep left running, servers included.",
)
@click.option(
    "--products", default=1000, show_default=True, help="Size of the sample shop's catalogue."
)
def demo(keep: bool, stop_: bool, products: int) -> None:
    """Crawl the bundled sample shop twice, and show the results."""
    settings = load_settings()
    if stop_:
        click.echo(f"{processes.stop_remembered(settings)} processes stopped")
        require_service(LocalServers, "the demo").down(settings)  # type: ignore[type-abstract]
    else:
        _run_demo(settings, products=products, keep=keep)


def _run_demo(settings: Settings, *, products: int, keep: bool) -> None:
    """Runs the whole demo. Raises `CrawlFailedError` if a crawl does not complete."""
    if processes.pids_path(settings).exists():
        processes.stop_remembered(settings)
    with ExitStack() as stack:
        stack.enter_context(_run_servers(settings, keep))
        shop = stack.enter_context(_run_shop(settings, products, keep))
        port = processes.find_free_port(FLOWER_PORT)
        started = _start_fleet(settings, port)
        if keep:
            processes.remember(settings, started)
        else:
            stack.callback(fleet.stop_processes, started)
        engine = make_engine(settings.postgres_url)
        _install_definition(engine, shop)
        _wait_until_ready(settings, started, port)
        service = find_service(FlowerLogin)  # type: ignore[type-abstract]
        if service is not None:
            login = service.read_login(settings)
            click.echo(
                f"Flower: http://127.0.0.1:{port}  (user {login.user}, password in {login.where})\n"
            )
        _first_crawl(engine, settings)
        _second_crawl(engine, settings, shop)
        _show_next_steps(keep, port)
    if not keep:
        click.echo("Everything that the demo started is stopped; the data stays in PostgreSQL.")


@contextmanager
def _run_servers(settings: Settings, keep: bool) -> Iterator[None]:
    local_servers = require_service(LocalServers, "the demo")  # type: ignore[type-abstract]
    were_running = all(state.running for state in local_servers.status(settings))
    for state in local_servers.up(settings):
        click.echo(f"{state.name}: {state.address}")
    servers.require_reachable(settings)
    click.echo(f"database: at revision {migrations.upgrade(make_engine(settings.postgres_url))}")
    try:
        yield
    finally:
        if not keep and not were_running:
            local_servers.down(settings)


@contextmanager
def _run_shop(settings: Settings, products: int, keep: bool) -> Iterator[str]:
    command = [
        sys.executable,
        "-m",
        "scraper.plugins.demo",
        "--port",
        "0",
        "--products",
        str(products),
    ]
    command += ["--latency-ms", str(LATENCY_MS), "--fail-share", str(FAIL_SHARE)]
    log = fleet.log_path(settings, "shop")
    log.parent.mkdir(parents=True, exist_ok=True)
    begin = log.stat().st_size if log.exists() else 0
    process = fleet.start_process(settings, "shop", command)
    if keep:
        processes.remember(settings, [process])
    try:
        yield _wait_for_address(process, log, begin)
    finally:
        if not keep:
            fleet.stop_processes([process])


def _wait_for_address(process: subprocess.Popen[bytes], log: Path, begin: int) -> str:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        with log.open() as lines:
            lines.seek(begin)
            for line in lines:
                if line.startswith("listening on ") and line.endswith("\n"):
                    address = line.removeprefix("listening on ").strip()
                    click.echo(f"shop: {address}")
                    return address
        time.sleep(0.05)
    raise ServerUnavailableError(f"the sample shop did not start; its log is {log}")


def _start_fleet(settings: Settings, flower_port: int) -> list[subprocess.Popen[bytes]]:
    """Starts the commands that a user would type, each in a process of its own."""
    # This coordinator has no sites folder, so that it neither removes the user's own definitions
    # nor crawls by their schedules.
    env = {
        "SCRAPER_SITES": str(settings.home_dir / "demo-has-no-sites-folder"),
        "SCRAPER_SCHEDULES": "false",
    }
    flower = [sys.executable, "-m", "celery", "-A", "scraper", "flower", f"--port={flower_port}"]
    commands = {
        "coordinator": fleet.worker_command(["coordinator"], name="coordinator", beat=True),
        "residential": fleet.worker_command(["residential"], name="residential"),
        "datacenter": fleet.worker_command(["datacenter"], name="datacenter"),
        "flower": flower,
    }
    for name, command in commands.items():
        click.echo(f"{name}: {' '.join(['celery', *command[3:]])}")
    return [fleet.start_process(settings, name, command, env) for name, command in commands.items()]


def _install_definition(engine: sa.Engine, shop: str) -> None:
    """Writes the sample shop's definition to the database, and deletes an earlier demo's data.
    Raises `ConfigError` if another site has its name."""
    site = _load_definition(shop)
    with engine.connect() as connection:
        stored = sites.find_site(connection, site.name)
        running = crawls.running_ids(connection, site.name)
    if stored is not None and not _is_sample_shop(stored[1]):
        raise ConfigError(
            f"another site is named {site.name!r}, and the demo would delete its data (fix: give "
            "it another name; if an earlier demo left it, type `scraper sites delete demo`)"
        )
    for crawl_id in running:
        overrides.stop_crawl(engine, crawl_id)
    if stored is not None:
        deletion.delete_site(engine, site.name, lambda what, rows: None)
    with engine.begin() as connection:
        sites.store_definitions(connection, [site])


def _load_definition(shop: str) -> Site:
    return loader.load_text(definition(shop), "scraper/plugins/demo/shop.yaml")


def _is_sample_shop(stored: Site) -> bool:
    """Returns whether a stored site is the sample shop, at whatever port."""
    return stored.content_hash == _load_definition(origin(stored.starts[0])).content_hash


def _wait_until_ready(
    settings: Settings, started: list[subprocess.Popen[bytes]], flower_port: int
) -> None:
    queues = {"coordinator", "residential", "datacenter"}
    deadline = time.monotonic() + READY_S
    while not (queues <= fleet.served_queues() and _is_answering(flower_port)):
        for process in started:
            if process.poll() is not None:
                raise ServerUnavailableError(
                    f"a process of the demo ended with exit code {process.returncode}; "
                    f"the logs are in {fleet.log_path(settings, 'x').parent}"
                )
        if time.monotonic() > deadline:
            raise ServerUnavailableError(f"the workers did not get ready in {READY_S:.0f} s")
        time.sleep(0.2)


def _is_answering(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthcheck", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


def _run_crawl(engine: sa.Engine) -> CrawlProgress:
    opened = plan.open_now(engine, "demo")
    send(opened.messages)
    crawl = follow_crawl(engine, opened.crawl_id)
    click.echo(progress.summarize_crawl(crawl))
    if crawl.status != "completed":
        raise CrawlFailedError(f"the demo's crawl {crawl.id} {crawl.status}: {crawl.note}")
    return crawl


def _first_crawl(engine: sa.Engine, settings: Settings) -> None:
    click.echo("First crawl: everything is new.")
    _run_crawl(engine)
    with engine.connect() as connection:
        columns, rows = read_products(connection, "demo", SHOWN)
    click.echo("")
    print_products(columns, rows)


def _second_crawl(engine: sa.Engine, settings: Settings, shop: str) -> None:
    httpx.post(f"{shop}/_visit", timeout=10).raise_for_status()
    click.echo(
        "\nThe shop changes prices, adds and drops products. "
        "Second crawl: only changes are written."
    )
    crawl = _run_crawl(engine)
    with engine.connect() as connection:
        changes = list(connection.execute(PRICE_CHANGES, {"crawl": crawl.id, "shown": SHOWN}))
    if not changes:
        raise ScraperError("the second crawl found no price change, though the shop made some")
    click.echo(f"\n{changes[0].total:,} prices changed, such as:")
    rows = [
        [c.external_id, c.name, f"{c.before} {c.currency or ''}", f"{c.after} {c.currency or ''}"]
        for c in changes
    ]
    print_table(["id", "name", "before", "after"], rows)


def _show_next_steps(keep: bool, port: int) -> None:
    if keep:
        first = [
            (f"http://127.0.0.1:{port}", "Flower: crawls, workers, tasks"),
            ("scraper crawl demo --wait", "crawl it again"),
            ("scraper demo --stop", "stop everything that still runs"),
            ("(a worker that ends is not restarted; see its log)", ""),
        ]
    else:
        first = [
            ("scraper up", "start PostgreSQL and Valkey again"),
            ("scraper demo --keep", "the same, and leave it running"),
        ]
    always = [
        ("scraper status", "the crawls"),
        ("scraper products demo", "the products; `scraper history demo ID` for one"),
        ("scraper export demo --format csv -o demo.csv", ""),
    ]
    folder = Path(sys.executable).parent
    where = "" if shutil.which("scraper") else f" (the commands are in {folder})"
    click.echo(f"\nNext, in this folder{where}:")
    for command, purpose in [*first, *always]:
        click.echo(f"  {command:<42} {purpose}".rstrip())
