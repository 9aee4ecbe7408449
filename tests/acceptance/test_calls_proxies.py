"""Users' functions through real proxies: nothing leaves without one, and what must not be repeated
leaves once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper.frontier import sites
from scraper.plugins.functions.client import (
    CallError,
    CallTimeoutError,
    Client,
    FunctionRefusedError,
)
from scraper.settings import Settings
from scraper.sites import loader
from tests.acceptance.commands import Commands
from tests.support import called
from tests.support.servers.hostile_server import self_signed
from tests.support.servers.proxies import DIRECT, SECRET, Field, TestProxy

MODULE = called.__name__
Served = Callable[..., None]


@pytest.fixture
def served(calling: Settings, run: Commands, engine: sa.Engine, tmp_path: Path) -> Served:
    """The field's site is in the database as `shop`, its proxies on a worker's list."""
    path = tmp_path / "proxies.txt"

    def start(field: Field, text: str | None = None, *, queue: str | None = "datacenter") -> None:
        new = tmp_path / "proxies.new"
        new.write_text(field.lines() if text is None else text)
        new.chmod(0o600)
        new.replace(path)
        run.env["PROXY_LIST"] = str(path)
        definition = calling.sites_dir / "shop.yaml"
        definition.write_text(field.definition("datacenter"))
        with engine.begin() as connection:
            sites.store_definitions(connection, [loader.load_file(definition)])
        if queue is not None:
            run.until_ready(run.worker(queue))

    return start


def test_pages_leave_through_proxies_alone(served: Served, run: Commands) -> None:
    """robots.txt and redirects too; a proxy that is dead, one that is banned, and one that cuts
    cost no input its result."""
    good = [TestProxy(1), TestProxy(2, "socks5")]
    banned, closed, cut = TestProxy(3), TestProxy(4, mode="closed"), TestProxy(5, mode="cut")
    with Field(*good, banned, closed, cut, products=60) as field:
        field.banned = {banned.address}
        served(field)
        urls = [f"{field.url}/p/{n}" for n in range(60)]
        answers = list(Client().map(f"{MODULE}:redirects", urls, site="shop", timeout_s=60))
        assert answers == [
            [200, 1, f"{url}?moved=1"] if url.endswith("7") else [200, 0, url] for url in urls
        ]
        assert set(field.peers()) <= {proxy.address for proxy in (*good, banned, cut)}
        assert {proxy.address for proxy in good} <= set(field.peers("/p/")) and field.peers(
            "/robots.txt"
        )
        assert SECRET not in run.logs(whole=True)


def test_private_addresses_are_not_asked_for_through_proxies(served: Served) -> None:
    """Without a site that allows them."""
    with Field(TestProxy(1)) as field:
        served(field)
        (error,) = Client().map(
            f"{MODULE}:title", [f"{field.url}/p/1"], proxy="datacenter", return_exceptions=True
        )
        assert (error.outcome, error.blame) == ("forbidden_address", "page")
        assert field.hits == [] and field.proxies[0].connections == 0


def test_calls_wait_without_a_proxy_and_go_on_when_the_list_has_one(
    served: Served, run: Commands
) -> None:
    with Field(TestProxy(1)) as field:
        served(field, field.lines("class=residential"))
        call = Client().map(
            f"{MODULE}:title", [f"{field.url}/p/1"], site="shop", input_timeout_s=2, timeout_s=60
        )
        with pytest.raises(CallTimeoutError):
            list(Client().map(f"{MODULE}:title", [f"{field.url}/p/2"], site="shop", timeout_s=4))
        assert field.hits == [] and field.proxies[0].connections == 0
        served(field, queue=None)
        assert len(list(call)) == 1
        assert set(field.peers()) == {field.proxies[0].address}


def test_a_worker_without_a_list_refuses(served: Served, run: Commands) -> None:
    with Field() as field:
        served(field, queue=None)
        run.until_ready(run.worker("datacenter", env={"PROXY_LIST": ""}))
        for options in ({"site": "shop"}, {"proxy": "residential"}):
            with pytest.raises(FunctionRefusedError, match="has no PROXY_LIST"):
                list(Client().map(f"{MODULE}:title", [f"{field.url}/p/1"], **options))
        assert field.hits == []


def test_what_is_posted_leaves_once(served: Served, run: Commands) -> None:
    """A proxy that does not let us in, or not go there, has passed nothing on: another one is
    asked. One that breaks off may have, and so may one that answers 502: then the function gets an error.
    """
    stranger, shy, proxy = TestProxy(1), TestProxy(2, "socks5", mode="403"), TestProxy(3)
    with Field(stranger, shy, proxy) as field:
        served(field, field.lines().replace(f"{stranger.password}@", "wrong@"))
        inputs = [[f"{field.url}/order/{n}", f"Größe {n}"] for n in range(60)]
        assert list(Client().map(f"{MODULE}:orders", inputs, site="shop", timeout_s=60)) == [
            text for _, text in inputs
        ]
        posts = {
            (hit.target, hit.peer): hit.body.decode() for hit in field.hits if hit.method == "POST"
        }
        assert posts == {(f"/order/{n}", proxy.address): text for n, (_, text) in enumerate(inputs)}
        assert len([hit for hit in field.hits if hit.method == "POST"]) == 60
        assert stranger.asked and shy.asked

        for mode, outcome, told in (
            ("cut", "unreachable", "broke off"),
            ("502", "server_error", "502"),
        ):
            proxy.mode = mode
            field.hits.clear()
            proxy.asked.clear()
            errors = list(
                Client().map(f"{MODULE}:orders", inputs[:8], site="shop", return_exceptions=True)
            )
            assert {(type(error), error.outcome) for error in errors} == {(CallError, outcome)}
            assert all(told in error.message for error in errors)
            asked = Counter(line for line in proxy.asked if line.startswith("POST"))
            assert asked == {f"POST {url}": 1 for url, _ in inputs[:8]}
            assert len(field.hits) == (8 if mode == "cut" else 0)


def test_what_is_posted_through_tunnels(
    served: Served, run: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    proxies = [
        TestProxy(n, scheme, tls=context)
        for n, scheme in enumerate(("http", "https", "socks5", "socks5h"), 1)
    ]
    with Field(*proxies, tls=context) as field:
        served(field)
        inputs = [[f"{field.url}/order/{n}", f"number {n}"] for n in range(40)]
        assert list(Client().map(f"{MODULE}:orders", inputs, site="shop", timeout_s=60)) == [
            text for _, text in inputs
        ]
        posts = Counter(hit.target for hit in field.hits if hit.method == "POST")
        assert posts == {f"/order/{n}": 1 for n in range(40)}
        assert DIRECT not in field.peers() and len(field.peers("/order")) >= 3
        for proxy in proxies:
            proxy.mode = "cut"
        field.hits.clear()
        errors = list(
            Client().map(f"{MODULE}:orders", inputs[:8], site="shop", return_exceptions=True)
        )
        assert {error.blame for error in errors} == {"host"}
        assert field.hits and max(Counter(hit.target for hit in field.hits).values()) == 1


@pytest.mark.usefixtures("installed_chromium")
def test_pages_of_browsers_leave_through_proxies_alone(served: Served) -> None:
    with Field(TestProxy(1), TestProxy(2, "socks5")) as field:
        served(field, queue="browser")
        urls = [f"{field.url}/p/{n}" for n in range(8)]
        results = Client().map(f"{MODULE}:shown", urls, queue="browser", site="shop", timeout_s=120)
        assert [(status, shown) for _, status, shown in results] == [
            (200, f"Product /p/{n}") for n in range(8)
        ]
        assert set(field.peers()) <= {proxy.address for proxy in field.proxies} and field.peers(
            "/robots.txt"
        )
