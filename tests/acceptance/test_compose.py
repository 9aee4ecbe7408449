"""docker-compose.yml is what it says: its services, each with its own command, environment, secrets
and health check, crawl the sample shop, and stop within their grace. They run as processes of this
machine (`tests.support.deploy.compose`): no image is built."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
import redis

from scraper.plugins.demo import definition
from tests.acceptance.commands import until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.truth import as_truth
from tests.support.deploy import compose
from tests.support.deploy.compose import Container, Stack
from tests.support.started import has_ended

PRODUCTS = 120
APP = (
    "coordinator",
    "beat",
    "worker-datacenter",
    "worker-residential",
    "worker-browser",
    "flower",
    "metrics",
)
LASTS_S = 240.0


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[SampleShop]:
    shop = SampleShop("--products", str(PRODUCTS))
    (tmp_path / "sites").mkdir()
    (tmp_path / "sites" / "demo.yaml").write_text(definition(shop.url))
    yield shop
    shop.stop()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Callable[..., Stack]]:
    """Makes the secrets as the documentation says, and a stack of the profiles asked for."""
    stacks = []

    def make(
        *profiles: str, without: Sequence[str] = (), forks: bool = False, **given: str
    ) -> Stack:
        script = compose.ROOT / "deploy" / "make_secrets.py"
        subprocess.run(
            [sys.executable, script, tmp_path / "secrets"], check=True, capture_output=True
        )
        stack = Stack(
            tmp_path / "stack", tmp_path / "secrets", tmp_path / "sites", *profiles,
            given=given, forks=forks,
        )  # fmt: skip
        # those two's files have tests of their own
        for service in ("prometheus", "grafana", *without):
            stack.containers.pop(service, None)
        stacks.append(stack)
        return stack

    yield make
    for each in stacks:
        each.kill()


def secrets_of(stack: Stack) -> set[str]:
    return {
        file.read_text().strip()
        for file in stack.secrets.iterdir()
        if file.name.endswith("_password")
    }


def shown(process: psutil.Process) -> str:
    """What others may see of a process: `ps`, `docker inspect`."""
    try:
        return "\0".join([*process.cmdline(), *process.environ().values()])
    except psutil.Error:
        return ""


def one_off(container: Container, *words: str) -> str:
    """`docker compose exec SERVICE …`, which must do."""
    done = container.run("scraper", *words, timeout_s=LASTS_S)
    assert done.returncode == 0, done.stdout + done.stderr + container.stack.logs()
    return done.stdout


def products(container: Container) -> dict[str, dict[str, Any]]:
    rows = (
        json.loads(line, parse_float=Decimal)
        for line in one_off(container, "export", "demo").splitlines()
    )
    return {row["id"]: as_truth(row) for row in rows}


def crawl_the_shop(made: Stack, running: list[Container], shop: SampleShop) -> None:
    """Its products are the truth, and every container still runs."""
    coordinator = made.containers["coordinator"][0]
    crawl = int(one_off(coordinator, "crawl", "demo"))
    # A `scraper status` each time would take a core from the crawl.
    url = made.reached((made.secrets / "database_url").read_text().strip())

    def ended() -> bool:
        assert all(each.process is not None and each.process.poll() is None for each in running), (
            made.logs()
        )
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT status FROM crawls WHERE id = %s", [crawl])
            ((status,),) = found.fetchall()
        assert status in ("planned", "running", "completed"), status
        return bool(status == "completed")

    until(ended, LASTS_S, every_s=0.5)
    newest = json.loads(one_off(coordinator, "status", "demo", "--json"))["crawls"][0]
    assert (newest["id"], newest["status"]) == (crawl, "completed")
    assert products(coordinator) == shop.truth()


@pytest.mark.timeout(600)
def test_the_services_crawl_the_sample_shop(stack: Callable[..., Stack], shop: SampleShop) -> None:
    made = stack("metrics")
    assert {*APP, "postgres", "redis", "migrate"} == set(made.containers)
    before = {
        each.name: sorted(path.name for path in (each.folder / "app").iterdir())
        for each in made.all()
    }
    made.containers["beat"].append(Container(made, "beat", 2))  # as Kubernetes has it
    before["beat-2"] = before["beat-1"]
    made.up(LASTS_S)
    running = [each for name in APP for each in made.containers[name]]
    assert len(made.containers["worker-datacenter"]) > 1, "replicas are part of it"

    crawl_the_shop(made, running, shop)
    hidden = secrets_of(made)
    for process in (each for container in made.all() for each in container.processes()):
        assert not any(secret in shown(process) for secret in hidden), process.cmdline()
    assert not any(secret in made.logs() for secret in hidden)

    flower, password = made.containers["flower"][0], (made.secrets / "flower_password").read_text()
    url = f"http://127.0.0.1:{flower.port('5555')}/api/crawls"
    assert httpx.get(url, timeout=180).status_code == 401
    assert (
        httpx.get(url, auth=("admin", password), timeout=180).json()["crawls"][0]["status"]
        == "completed"
    )
    for name, port, metric in (
        ("metrics", "9750", "scraper_up 1.0"),
        ("worker-residential", "9751", "scraper_worker_pages_total"),
    ):
        container = made.containers[name][0]
        assert (
            metric
            in httpx.get(f"http://127.0.0.1:{container.port(port)}/metrics", timeout=180).text
        )

    family = [each for container in made.all() for each in container.processes()]
    codes = {each.name: each.stop() for each in running}
    assert codes == dict.fromkeys(codes, 0), made.logs()
    assert {
        each.name: each.stop() for name in ("redis", "postgres") for each in made.containers[name]
    } == {
        "redis-1": 0,
        "postgres-1": 0,
    }
    assert [each for each in family if not has_ended(each)] == []
    assert "Traceback" not in made.logs()
    assert before == {
        each.name: sorted(path.name for path in (each.folder / "app").iterdir())
        for each in made.all()
    }
    files = [
        (each, path) for each in made.all() for path in each.folder.rglob("*") if path.is_file()
    ]
    written = {
        path.relative_to(each.folder).parts[0] for each, path in files if not path.is_symlink()
    }
    assert written <= {"tmp", "run"}, "the rest of a container is read-only"


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("installed_rabbitmq")
def test_rabbitmq_in_place_of_valkey(stack: Callable[..., Stack], shop: SampleShop) -> None:
    """By two lines in `.env`, as the documentation has them: the queues are there, and none in
    Valkey. How the images start a process has been tried above."""
    without = ("worker-browser", "flower")
    url_file = "/run/secrets/broker_url"
    made = stack("rabbitmq", without=without, forks=True, BROKER_URL_FILE=url_file)
    made.up(LASTS_S)
    running = [each for name in APP if name in made.containers for each in made.containers[name]]
    crawl_the_shop(made, running, shop)

    with redis.Redis.from_url(made.reached((made.secrets / "redis_url").read_text())) as client:
        assert [key for key in client.scan_iter() if not key.startswith(b"scraper:")] == []
    assert not any(secret in made.logs() for secret in secrets_of(made))
    codes = {each.name: each.stop() for each in running}
    assert codes == dict.fromkeys(codes, 0), made.logs()
