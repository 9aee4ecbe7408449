"""Metrics as Prometheus gets them: during and after a real crawl, with several workers, and while
servers are away."""

from __future__ import annotations

import asyncio
import json
import math
import re
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import redis.asyncio as aredis
import sqlalchemy as sa
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from scraper.plugins.accounts.store import LoginStore
from scraper.plugins.metrics.settings import targets_dir
from scraper.politeness.fleet_limiter import RedisFleetLimiter
from scraper.proxies.health import ProxyHealth, Tally
from scraper.rules.budget import Budget
from scraper.settings import Settings
from tests.acceptance.commands import Commands, assert_counted, until
from tests.acceptance.conftest import SampleShop
from tests.support.deploy import promql
from tests.support.deploy.promtool import promtool
from tests.support.making import a_site, add, new_page, open_crawl, urls
from tests.support.servers.forked import ROOT

ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "scraper.json"
PROMETHEUS_OWN = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
PROMETHEUS_LABELS = {"job", "instance", "worker", "le"}
PRODUCTS = 60
PLAN = sa.text("""
INSERT INTO site_plans (site_id, allocation, mean_rate, requests, visits, promised, planned_at,
                        wanted, hours, days, seen_days, needed, broken)
SELECT id, '{1}', 1, 1, 1, 0.5, now(), '{}', '{}', '{}', 1, 2, 'budget too small' FROM sites
""")


def scraped(address: str) -> dict[str, Metric]:
    answer = httpx.get(f"http://{address}/metrics", timeout=60)
    assert answer.status_code == 200
    return {family.name: family for family in text_string_to_metric_families(answer.text)}


def samples(*scrapes: dict[str, Metric]) -> dict[str, list[dict[str, str]]]:
    """Every sample's name, with the labels it was seen with."""
    found: dict[str, list[dict[str, str]]] = {}
    for scrape in scrapes:
        for family in scrape.values():
            for sample in family.samples:
                found.setdefault(sample.name, []).append(sample.labels)
    return found


def scraped_whole(address: str) -> dict[str, Metric]:
    """Asks again while a server is not read in time."""

    def scrape() -> dict[str, Metric] | None:
        found = scraped(address)
        return found if value(found, "scraper_up") == 1 else None

    return cast("dict[str, Metric]", until(scrape, 30, every_s=0.5))


def value(scrape: dict[str, Metric], name: str, **labels: str) -> float:
    """NaN, which equals nothing, without the metric: its server was not read in time."""
    family = scrape.get(name.removesuffix("_total") if name.endswith("_total") else name)
    if family is None:
        return math.nan
    return sum(
        s.value for s in family.samples if s.name == name and labels.items() <= s.labels.items()
    )


@pytest.fixture
def exporter(run: Commands) -> str:
    """The address at which `scraper metrics` serves."""
    return served(run)


def served(run: Commands, **env: str) -> str:
    process = run.start("scraper", "metrics", "--port", "0", env=env)
    return str(until(lambda: re.search(r"metrics: http://(\S+)/metrics", run.log(process)), 30)[1])


def expressions() -> Iterator[str]:
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in board["templating"]["list"]:
        if found := re.fullmatch(r"label_values\((.+), (\w+)\)", variable.get("definition", "")):
            yield f"sum by ({found[2]}) ({found[1]})"


def without_variables(expression: str) -> str:
    return (
        expression.replace("$__rate_interval", "5m").replace("$site", ".*").replace("$queue", ".*")
    )


async def trouble(settings: Settings) -> None:
    """A host that rests, and proxies, one of which rests for it; an account that is about to log
    in."""
    async with aredis.Redis.from_url(settings.valkey_url) as client:
        throttle = RedisFleetLimiter(client, "test")
        await throttle.reserve("slow.example", Budget(0.1, 2, 1), slots=1, allotment=1, in_flight=0)
        await throttle.slow_down(
            "slow.example", Budget(0.1, 2, 1), rest_s=600, why="429", age_s=0.0
        )
        health = ProxyHealth(client)
        await health.report(
            "slow.example",
            {"residential-de-aa": Tally(5, 4, 1, 2.0), "residential-de-bb": Tally(1, 1)},
        )
        await health.strike("slow.example", "residential-de-aa", "blocked", 600)
        await LoginStore(client).acquire(
            "shop", "ann", "t", seen=0, lock_s=600, every_s=0, marks=["k:s"]
        )


def test_everything_that_rules_and_panels_ask_for_is_there_after_a_crawl(
    run: Commands,
    engine: sa.Engine,
    environment: Settings,
    exporter: str,
    sample_shop: Callable[..., SampleShop],
) -> None:
    shop = sample_shop(
        "--products",
        str(PRODUCTS),
        "--fail-share",
        "0.1",
        changes={"queue: residential": "queue: datacenter"},
    )
    definition = environment.sites_dir / f"{shop.name}.yaml"
    definition.write_text(definition.read_text() + '\nschedule: "0 6 * * *"\n')
    scraped_whole(exporter)
    run.coordinator()
    workers = [run.worker("datacenter", env={"SCRAPER_METRICS_PORT": "0"}) for _ in range(2)]
    for worker in workers:
        run.until_ready(worker)
    first = run.crawl(engine, shop.name)
    scraped_after = until(lambda: _after(exporter, shop.name, first["fetches"]), 60, every_s=0.5)
    assert_counted(engine, first)

    # what the exporter says is what PostgreSQL says
    for status in ("ok", "unchanged", "gone", "dead", "invalid", "dropped"):
        assert (
            value(scraped_after, "scraper_settled_pages_total", site=shop.name, status=status)
            == first[status]
        )
    assert value(scraped_after, "scraper_products_total", change="new") == first["products_new"] > 0
    assert value(scraped_after, "scraper_crawls_ended_total", status="completed") == 1
    assert value(scraped_after, "scraper_complete_crawl_age_seconds", site=shop.name) < 120
    assert value(scraped_after, "scraper_schedule_missed_seconds", site=shop.name) == 0
    dead = {s.labels["status"]: s.value for s in scraped_after["scraper_dead_pages"].samples}
    assert dead == {status: first[status] for status in ("dead", "invalid")}

    # the workers, each at a port of its own, found through their files; together they tried what
    # the crawl counts
    asyncio.run(trouble(environment))
    targets = [
        entry
        for path in targets_dir(environment).glob("*.json")
        for entry in json.loads(path.read_text())
    ]
    own = [scraped(target) for entry in targets for target in entry["targets"]]
    assert len(own) == len({entry["labels"]["worker"] for entry in targets}) >= 1
    tried = sum(
        s.value
        for each in own
        for s in each["scraper_worker_pages"].samples
        if s.name.endswith("_total") and s.labels["outcome"] != "deferred"
    )
    assert tried == first["fetches"]
    assert (
        sum(value(each, "scraper_worker_fetch_seconds_count") for each in map(_plain, own))
        == first["fetches"]
    )

    run.scraper("changes", shop.name, "--consumer", "lake", "--limit", "5")
    waits = open_crawl(engine, a_site(queue="nobody"))
    add(engine, [new_page(waits, url, queue="nobody") for url in urls(3)])
    until(lambda: "scraper_crawl_pages" in samples(scraped(exporter)), 30, every_s=0.5)
    until(
        lambda: value(scraped(exporter), "scraper_hosts_troubled", state="resting") == 1,
        30,
        every_s=0.5,
    )
    # The contract of a planned site is broken.
    with engine.begin() as connection:
        connection.execute(PLAN)
    until(lambda: "scraper_plan_broken" in samples(scraped(exporter)), 30, every_s=0.5)
    left = first["products_new"] - 5
    until(
        lambda: (
            value(scraped(exporter), "scraper_consumer_behind_changes", consumer="lake") == left
        ),
        30,
        every_s=0.5,
    )
    there = samples(scraped_whole(exporter), *own)
    for expression in expressions():
        wanted = promql.asked(without_variables(expression))
        for name in wanted.metrics - PROMETHEUS_OWN:
            assert name in there, f"{name} is not exported: {expression}"
        known = {
            label for name in wanted.metrics for labels in there.get(name, ()) for label in labels
        }
        assert wanted.labels <= known | PROMETHEUS_LABELS, expression
        for name, label, text in wanted.matches:
            if name not in PROMETHEUS_OWN:
                assert text in {labels.get(label) for labels in there[name]}, (
                    f"{name} has no {label}={text}"
                )

    for worker in workers:
        assert run.end(worker) == 0
    assert list(targets_dir(environment).glob("*.json")) == [], "whoever ends takes its file along"


def _plain(scrape: dict[str, Metric]) -> dict[str, Metric]:
    """Families by the names of their samples, for those of a histogram."""
    return {sample.name: family for family in scrape.values() for sample in family.samples}


def _after(address: str, site: str, fetches: int) -> dict[str, Metric] | None:
    found = scraped(address)
    if "scraper_fetches" not in found or "scraper_complete_crawl_age_seconds" not in found:
        return None
    aged = found["scraper_complete_crawl_age_seconds"].samples
    done = value(found, "scraper_fetches_total", site=site) == fetches and aged
    return (
        found
        if done and value(found, "scraper_crawls_ended_total", status="completed") == 1
        else None
    )


def test_pages_that_could_not_be_archived_are_counted(
    run: Commands,
    engine: sa.Engine,
    environment: Settings,
    tmp_path: Path,
    sample_shop: Callable[..., SampleShop],
) -> None:
    """One worker keeps all, the next one has a folder that is none."""
    shop = sample_shop("--products", "12", changes={"queue: residential": "queue: datacenter"})
    definition = environment.sites_dir / f"{shop.name}.yaml"
    definition.write_text(definition.read_text() + "\narchive: true\n")
    run.coordinator()
    counted = []
    for place in ("archive", "archive/file/archive"):
        worker = run.worker(
            "datacenter",
            env={"SCRAPER_METRICS_PORT": "0", "SCRAPER_ARCHIVE": str(tmp_path / place)},
        )
        run.until_ready(worker)
        run.crawl(engine, shop.name, "--refetch")
        ((target,),) = [
            json.loads(path.read_text()) for path in targets_dir(environment).glob("*.json")
        ]
        counted.append(until(partial(_archived, target["targets"][0], 12), 10))
        assert run.end(worker) == 0
        (tmp_path / "archive" / "file").touch()
    assert counted == [(12, 0), (0, 12)]


def _archived(address: str, pages: int) -> tuple[float, float] | None:
    """Stored and lost, once there are this many."""
    found = scraped(address)
    stored, lost = (
        value(found, "scraper_worker_archived_pages_total", result=each)
        for each in ("stored", "lost")
    )
    return (stored, lost) if stored + lost == pages else None


def test_a_server_that_is_away_takes_its_metrics_with_it_and_not_the_target(
    run: Commands, environment: Settings, tmp_path: Path
) -> None:
    nowhere = f"postgresql://x:s3cret@/x?host={tmp_path}&port=1"
    address = served(run, DATABASE_URL=nowhere)
    found = dict[str, Metric]()

    def others_are_read() -> bool:
        found.update(scraped(address))
        up = {s.labels["server"]: s.value for s in found["scraper_server_up"].samples}
        return up == {"postgresql": 0, "redis": 1, "broker": 1}

    until(others_are_read, 30, every_s=0.5)
    assert value(found, "scraper_up") == 0
    assert "scraper_pages" not in found and "scraper_hosts_troubled" in found
    log = run.log(run.started[-1])
    assert "cannot be read" in log and "s3cret" not in log
    assert run.end(run.started[-1]) == 0


def test_a_worker_without_a_port_serves_nothing_and_one_whose_port_is_taken_works_on(
    run: Commands,
    engine: sa.Engine,
    environment: Settings,
    exporter: str,
    sample_shop: Callable[..., SampleShop],
) -> None:
    shop = sample_shop("--products", "10", changes={"queue: residential": "queue: datacenter"})
    run.coordinator()
    taken = exporter.rpartition(":")[2]
    worker = run.worker("datacenter", env={"SCRAPER_METRICS_PORT": taken})
    run.until_ready(worker)
    assert run.crawl(engine, shop.name)["status"] == "completed"
    assert "this worker's metrics are not served" in run.log(worker)
    assert (
        not targets_dir(environment).exists() or list(targets_dir(environment).glob("*.json")) == []
    )
    assert run.end(worker) == 0


def test_metrics_once_and_a_port_that_is_taken(
    run: Commands, environment: Settings, exporter: str
) -> None:

    def prints_all() -> bool:
        printed = run.scraper("metrics", "--once").stdout
        return "scraper_up 1.0" in printed and "scraper_oldest_due_seconds" in printed

    until(prints_all, 15)
    host, _, port = exporter.rpartition(":")
    errors = run.scraper("metrics", "--host", host, "--port", port, code=2).stderr
    assert port in errors and "SCRAPER_EXPORTER_PORT" in errors
    assert run.end(run.started[0], signal.SIGINT) == 0


# --- files


def test_prometheus_accepts_rules_configuration_and_the_expressions_of_panels(
    tmp_path: Path,
) -> None:
    promtool("check", "rules", str(ALERTS), cwd=tmp_path)
    promtool("check", "config", "prometheus.yml", cwd=ALERTS.parent)
    rules = [
        {"record": f"panel:{n}", "expr": without_variables(each)}
        for n, each in enumerate(expressions())
    ]
    assert len(rules) > 50
    (tmp_path / "panels.yml").write_text(
        yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]})
    )
    promtool("check", "rules", "panels.yml", cwd=tmp_path)


def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    """Prometheus's own unit tests of rules, on made-up series."""
    (tmp_path / "alerts.yml").write_text(ALERTS.read_text())
    (tmp_path / "tests.yml").write_text((Path(__file__).parent / "alerts_tests.yml").read_text())
    assert "SUCCESS" in promtool("test", "rules", "tests.yml", cwd=tmp_path)


def test_every_alert_is_explained() -> None:
    rules: list[dict[str, Any]] = [
        r for g in yaml.safe_load(ALERTS.read_text())["groups"] for r in g["rules"]
    ]
    explained = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    tested = (Path(__file__).parent / "alerts_tests.yml").read_text()
    for rule in rules:
        assert f"|`{rule['alert']}`|" in explained, (
            f"{rule['alert']} has no row in docs/reference/metrics.md"
        )
        assert rule["alert"] in tested, f"{rule['alert']} has no test"
        assert (
            rule["labels"]["severity"] in ("critical", "warning") and rule["annotations"]["summary"]
        )


def test_every_metric_of_the_exporter_is_documented(exporter: str) -> None:
    text = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    for name, family in scraped(exporter).items():
        if name.startswith("scraper_"):
            whole = f"{name}_total" if family.type == "counter" else name
            assert f"`{whole}`" in text, f"{whole} is not in docs/reference/metrics.md"


@pytest.mark.parametrize(
    ("expression", "metrics", "labels"),
    [
        ('sum by (a) (rate(m_total{b="x",c=~"y|z"}[5m])) > 0.5', {"m_total"}, {"a", "b", "c"}),
        ("up == 0 or absent(up)", {"up"}, set()),
        ("topk(20, max by (host) (h)) and on (host) other", {"h", "other"}, {"host"}),
    ],
)
def test_expressions_are_read(expression: str, metrics: set[str], labels: set[str]) -> None:
    found = promql.asked(expression)
    assert found.metrics == metrics and found.labels == labels
