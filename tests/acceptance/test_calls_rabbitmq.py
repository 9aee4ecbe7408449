"""Users' functions with RabbitMQ as the broker: messages go through it, results through Redis as
ever."""

from __future__ import annotations

import html
import json
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from scraper import settings as settings_module
from scraper.frontier import sites
from scraper.plugins.functions.client import CallError, Client, ServerUnavailableError
from scraper.runtime import send
from scraper.settings import Settings
from scraper.sites import loader
from tests.acceptance.commands import Commands
from tests.acceptance.conftest import SampleShop
from tests.support import called

MODULE = called.__name__


@pytest.fixture
def environment(
    environment: Settings, rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    monkeypatch.setenv("BROKER_URL", rabbitmq_url)
    settings_module.load.cache_clear()
    return settings_module.load()


def test_hundreds_of_inputs_some_of_which_fail(
    calling: Settings, run: Commands, engine: sa.Engine, sample_shop: Callable[..., SampleShop]
) -> None:
    """In order, each once, each with its failure; a message for thirty of them; nothing is left
    in the broker."""
    shop = sample_shop("--products", "60")
    with engine.begin() as connection:
        sites.store_definitions(connection, [loader.load_file(calling.sites_dir / "demo.yaml")])
    workers = [run.worker("datacenter"), run.worker("datacenter")]
    for worker in workers:
        run.until_ready(worker)
    truth = {record["url"]: record["name"] for record in shop.truth().values()}
    urls = list(truth)
    odd = {
        50: ["fetch", f"{shop.url}/p/999999"],
        120: ["raise", "Größe"],
        121: ["set", 1],
        250: ["exit", 3],
    }
    inputs = [odd.get(n, ["fetch", urls[n % len(urls)]]) for n in range(300)]
    call = Client().map(
        f"{MODULE}:mixed", inputs, site="demo", return_exceptions=True, timeout_s=60
    )
    results = list(call)
    assert call.messages == 10
    failed = {n: result for n, result in enumerate(results) if isinstance(result, CallError)}
    assert {n: (error.index, error.input, error.outcome) for n, error in failed.items()} == {
        n: (n, given, "not_found" if given[0] == "fetch" else "function_failed")
        for n, given in odd.items()
    }
    assert len(results) == 300
    for n, (given, result) in enumerate(zip(inputs, results, strict=True)):
        assert n in failed or truth[given[1]] in html.unescape(result)
    assert send.queue_depth("datacenter") == 0
    words = ("run", f"{MODULE}:title", "--site", "demo", "--json", *urls[:3])
    assert [json.loads(line)["input"] for line in run.scraper(*words).stdout.splitlines()] == urls[
        :3
    ]
    assert "Traceback" not in run.logs(whole=True)
    assert [run.end(worker) for worker in workers] == [0, 0]


def test_no_worker_serves_the_queue(
    calling: Settings, run: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers answer over RabbitMQ too: who serves another queue is not taken for one that serves
    this one."""
    run.until_ready(run.worker("residential"))
    monkeypatch.setattr("scraper.plugins.functions.client.UNSERVED_S", 3.0)
    with pytest.raises(ServerUnavailableError, match="celery -A scraper worker -Q nobodys.eu"):
        list(Client().map(f"{MODULE}:echo", [1], queue="nobodys", region="eu"))
    with Client(local=True) as client:
        assert list(client.map(f"{MODULE}:echo", range(3), queue="nobodys", region="eu")) == [
            0,
            1,
            2,
        ]
