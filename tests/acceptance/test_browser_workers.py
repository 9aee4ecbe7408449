"""Browser workers as an operator starts them: real servers, a coordinator, `celery … worker -Q
browser`, Chromium."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from scraper.settings import Settings
from tests.acceptance.commands import Commands, assert_counted, until, until_completed
from tests.support.making import rows
from tests.support.shops.js_shop import LISTING, ForBrowsersOnly, HungryShop, JsShop
from tests.support.shops.login_shop import PASSWORD, SESSION, ScriptedShop
from tests.support.started import has_ended


@pytest.fixture
def shop(installed_chromium: str, environment: Settings) -> Iterator[JsShop]:
    with JsShop(products=8) as found:
        found.open()
        (environment.sites_dir / "shop.yaml").write_text(found.definition())
        yield found


def below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def gone(processes: list[psutil.Process]) -> bool:
    return all(has_ended(each) for each in processes)


def stored(engine: sa.Engine) -> dict[str, tuple[str, str, int]]:
    query = "SELECT external_id, data ->> 'name' AS name, data ->> 'price' AS price, data -> 'stock' AS stock FROM products"
    with engine.connect() as connection:
        return {
            row.external_id: (row.name, row.price, row.stock)
            for row in connection.execute(sa.text(query))
        }


def test_a_shop_of_javascript_alone_is_crawled_and_no_browser_stays(
    run: Commands, shop: JsShop, engine: sa.Engine
) -> None:
    run.coordinator()
    worker = run.worker("browser", env={"SCRAPER_BROWSER_PAGES": "2"})
    run.until_ready(worker)
    crawl = run.crawl(engine, "shop")
    assert crawl["status"] == "completed", crawl
    assert_counted(engine, crawl)
    assert stored(engine) == shop.truth
    assert shop.asked_for("/picture.png") == [], "images are not loaded"
    started = below(worker.pid)
    assert any("chrom" in each.name() for each in started)
    assert run.end(worker) == 0
    until(lambda: gone(started), 15)

    # The same for a worker that is killed, with pages open.
    worker = run.worker("browser", env={"SCRAPER_BROWSER_PAGES": "2"})
    run.until_ready(worker)
    run.scraper("crawl", "shop", "--refetch")
    until(lambda: any("type=renderer" in command for command in commands(worker.pid)), 60)
    started = below(worker.pid)
    # It alone: its children end by themselves.
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    until(lambda: gone(started), 15)


def commands(pid: int) -> list[str]:
    """Of the processes below one, those that ended that moment left out."""
    found = []
    for each in below(pid):
        with suppress(psutil.Error):
            found.append(" ".join(each.cmdline()))
    return found


def oldest_browser(pid: int) -> psutil.Process:
    found = []
    for each in below(pid):
        with suppress(psutil.Error):
            if "chrom" in each.name():
                found.append((each.create_time(), each.pid, each))
    return min(found)[2]


@pytest.mark.parametrize("word", ["is not a program", "no Chromium on this machine"])
def test_a_browser_worker_without_a_browser_says_so_and_ends(
    run: Commands, environment: Settings, word: str
) -> None:
    env = {"SCRAPER_CHROMIUM": "/no/such/chromium"} if "program" in word else {"PATH": "/nowhere"}
    worker = run.worker("browser.eu", env=env)
    assert worker.wait(120) == 2
    assert word in run.log(worker) and "fix:" in run.log(worker)


@pytest.mark.usefixtures("installed_chromium")
def test_a_shop_that_blocks_is_crawled_by_a_browser_in_the_end(
    run: Commands, environment: Settings, engine: sa.Engine
) -> None:
    with ForBrowsersOnly(products=5) as shop:
        shop.open()
        text = shop.definition().replace("queue: browser", "queue: residential\nescalate: browser")
        (environment.sites_dir / "shop.yaml").write_text(text)
        run.coordinator()
        run.worker("residential")
        run.until_ready(run.worker("browser", env={"SCRAPER_BROWSER_PAGES": "2"}))
        crawl = run.crawl(engine, "shop")
        assert crawl["status"] == "completed", crawl
        assert_counted(engine, crawl)
        assert stored(engine) == shop.truth


@pytest.mark.usefixtures("installed_chromium")
def test_a_browser_that_grows_too_large_is_replaced_and_the_crawl_goes_on(
    run: Commands, environment: Settings, engine: sa.Engine
) -> None:
    with HungryShop(products=8) as shop:
        shop.open()
        # A browser alone takes 250 to 300 MB, or half of that where another test's shares its pages
        # with it: with 600 it is above the limit either way, and well below the 975 at which it is
        # killed.
        shop.hungry("all", 600, LISTING)
        text = shop.definition().replace("click: button.more", "click: button.more\n  wait: 30s")
        (environment.sites_dir / "shop.yaml").write_text(text)
        run.coordinator()
        worker = run.worker(
            "browser", env={"SCRAPER_BROWSER_PAGES": "2", "SCRAPER_BROWSER_MEMORY_MAX_MB": "650"}
        )
        run.until_ready(worker)
        crawl_id = int(run.scraper("crawl", "shop").stdout)
        until(lambda: "its processes have" in run.log(worker), 150)
        started, first = below(worker.pid), oldest_browser(worker.pid)
        shop.done.set()
        until_completed(engine, crawl_id, 120)
        assert_counted(engine, run.crawls("shop")[0])
        assert stored(engine) == shop.truth
        assert len(shop.asked_for("/filled?")) == 1, "the listing that filled it was shown once"
        assert run.log(worker).count("browser started") == 2, "all products are another one's"
        until(lambda: gone([first]), 15)
        started += below(worker.pid)
        assert run.end(worker) == 0
        until(lambda: gone(started), 15)


@pytest.mark.usefixtures("installed_chromium")
def test_pages_of_an_account_are_one_login_an_expiry(
    run: Commands, environment: Settings, engine: sa.Engine, tmp_path: Path
) -> None:
    """Logged out twice on the way: pages show the form, at first, and later redirect to it."""
    with ScriptedShop(products=16) as shop:
        accounts = tmp_path / "accounts.yaml"
        accounts.touch(0o600)
        accounts.write_text(shop.accounts("ann@shop.example"))
        text = shop.definition(more="queue: browser\n").replace(
            "type: price}", "type: price, required: true}"
        )
        (environment.sites_dir / "shop.yaml").write_text(text)
        run.env["SCRAPER_ACCOUNTS"] = str(accounts)
        run.coordinator()
        worker = run.worker("browser", env={"SCRAPER_BROWSER_PAGES": "2"})
        run.until_ready(worker)
        crawl_id = int(run.scraper("crawl", "shop").stdout)
        for times, (products, style) in enumerate(((4, "page"), (9, "redirect")), 1):
            until(lambda products=products: len(stored(engine)) >= products, 120)
            assert len(shop.logins) == times, "one for all pages"
            shop.style = style
            shop.expire_all()
        until_completed(engine, crawl_id, 120)
        crawl = run.crawls("shop")[0]
        assert_counted(engine, crawl)
        assert (crawl["dead"], crawl["invalid"]) == (0, 0)
        prices = dict(rows(engine, "SELECT external_id, data ->> 'price' FROM products"))
        assert prices == {str(n): f"{n}.50" for n in range(16)}
        assert (
            shop.expired == 2 and len(shop.logins) == 3 and shop.refused == [] and shop.forged == 0
        )
        assert 2 <= shop.logged_out <= 12, "what was open, and no more"
        assert all("sid" in names for names in shop.cookies), (
            "the login's, which was made without a browser"
        )
        carried = [names >= {"seen", "drawn"} for names in shop.cookies]
        assert sum(carried) >= 6, (
            "what pages and their scripts set comes back, but for the first pages of each login"
        )
        assert all(
            "Chrome" not in agent for session in shop.sessions.values() for agent in session.agents
        )
        (told,) = run.json("login", "list", "shop")
        assert told["state"] == "logged in" and told["seen_working"]
        kept = run.logs(whole=True)
        assert PASSWORD not in kept and SESSION not in kept
        started = below(worker.pid)
        assert run.end(worker) == 0
        until(lambda: gone(started), 15)
