"""The Crawls tab as an operator sees it: a headless Chromium, during a crawl of the sample shop
with faults."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from decimal import Decimal

import sqlalchemy as sa
from playwright.sync_api import Browser, Page, expect

from scraper.views import crawl_progress as progress
from tests.acceptance.commands import Commands, counted, until
from tests.acceptance.conftest import SampleShop
from tests.acceptance.tab_window import NARROW, SOON_MS, WIDE, Window
from tests.support.judged_crawls import crawled, good, shop, without
from tests.support.making import a_site, add, give_up, new_page, open_crawl, rows, urls
from tests.support.servers.flower import Flower
from tests.support.shops.crawled_shop import Shop

EVIL = "</pre><script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">\u202e"
# With one charged try (two where the host is to blame), what fails twice is dead. Failures of half
# of the pages slow the crawl down.
FAULTS = ("--products", "300", "--latency-ms", "60", "--fail-share", "0.5")


def number(page: Page, label: str) -> str:
    return page.locator(".metric-card", has_text=label).locator(".metric-value").inner_text()


def test_an_operators_evening(
    run: Commands,
    engine: sa.Engine,
    sample_shop: Callable[..., SampleShop],
    flower: Flower,
    browser: Browser,
) -> None:
    shop = sample_shop(*FAULTS, changes={"rate: unlimited": "rate: 200/s"})
    run.env |= {"SCRAPER_ATTEMPTS_MAX": "1", "SCRAPER_BATCH_PAGES": "20"}
    run.coordinator()
    run.worker("datacenter")
    run.worker("residential")
    window = Window(browser, flower)
    page = window.open("/crawls")
    expect(page.locator("#fleet")).to_contain_text(re.compile("never crawled|No site yet"))
    crawl_id = int(run.scraper("crawl", "demo").stdout)

    # It runs: shown without loading the page again, and as in the terminal.
    expect(page.locator(f'[data-crawl="{crawl_id}"]')).to_contain_text("running", timeout=120_000)
    until(lambda: progress.read_one(engine, crawl_id).counts.product_done > 20, 90)
    window.drawn(2)
    expect(page.locator("[data-crawl] .spark path").first).to_be_attached()
    page.get_by_role("link", name=f"Crawl {crawl_id} of demo").click()
    window.drawn()
    expect(page.locator("h1")).to_have_text("demo")
    expect(page.locator("#chart-rate canvas")).to_be_visible()
    assert "server_error" in page.locator("#outcomes").inner_text()
    assert shop.process.poll() is None

    def pause() -> None:
        page.get_by_role("button", name="Pause site").click()
        expect(page.locator("#crawls-message")).to_contain_text("demo is paused.")
        expect(page.locator("#actions .crawl-badge")).to_have_text("paused")

    def resume() -> None:
        page.get_by_role("button", name="Resume site").click()
        expect(page.locator("#crawls-message")).to_contain_text("demo is resumed.")

    # Flower is restarted in the middle: the page says so, goes on by itself, and nothing is
    # forgotten. The crawl waits until then.
    pause()
    before = flower.json(f"/api/crawls/{crawl_id}")["course"]["points"][0]
    flower.stop()
    expect(page.locator("#crawls-problem")).to_contain_text(
        "Flower does not answer", timeout=120_000
    )
    # the browser itself reports each request that fails
    window.said.clear()
    flower.start()
    expect(page.locator("#crawls-problem")).to_be_hidden(timeout=120_000)
    window.said.clear()
    after = flower.json(f"/api/crawls/{crawl_id}")["course"]["points"][0]
    assert after["at"] == before["at"] and after["tries"] >= before["tries"]

    # The end by the button, which asks once more: second tries come after all first ones.
    resume()
    until(lambda: counted(engine, crawl_id)["dead"] > 3, 180)
    pause()
    until(lambda: rows(engine, "SELECT count(*) FROM leases") == [(0,)], 60)
    stop = page.locator('[data-action="stop"]')
    stop.click()
    expect(stop).to_have_text("Really stop?")
    assert rows(engine, "SELECT status FROM crawls") == [("running",)]
    stop.click()
    expect(page.locator("#crawls-message")).to_contain_text(
        f"Crawl {crawl_id} is stopped.", timeout=120_000
    )
    expect(page.locator("#actions .crawl-badge")).to_have_text("stopped")
    assert rows(engine, "SELECT status, note FROM crawls") == [
        ("stopped", "stopped by admin in Flower")
    ]

    resume()

    # What the page shows is what PostgreSQL has.
    window.drawn()
    truth = progress.read_one(engine, crawl_id)
    assert (
        number(page, "Pages done") == f"{truth.done:,}"
        and number(page, "Dead and invalid") == f"{truth.failed:,}"
    )
    ((tries, fetched),) = rows(
        engine, "SELECT sum(tries), sum(tries) FILTER (WHERE outcome = 'fetched') FROM throughput"
    )
    assert page.locator("#outcomes h2").inner_text().split("\n")[-1].endswith(f"{tries:,} tries")
    assert tries == truth.counts.fetches
    assert (
        page.locator("#outcomes tr", has_text="fetched").first.inner_text().split()[2]
        == f"{fetched:,}"
    )
    shown = flower.json(f"/api/crawls/{crawl_id}")
    for group in ("workers", "queues", "proxies", "outcomes", "hosts"):
        assert sum(one["tries"] for one in shown[group]) == tries, group
    assert sum(point["tries"] for point in shown["course"]["points"]) == tries
    assert len(shown["workers"]) == len(shown["queues"]) == 2
    assert counted(engine, crawl_id)["dead"] == sum(one["pages"] for one in shown["dead_reasons"])

    # A dead page is looked at and replayed: a crawl of its own, in which it is good.
    (page_id, address) = (shown["dead"][0]["id"], shown["dead"][0]["url"])
    details = page.locator(f'[data-key="page-{page_id}"]')
    details.locator("summary").click()
    window.drawn(1)
    expect(details.locator(".crawl-dead-body")).to_contain_text(shown["dead"][0]["error"])
    details.get_by_role("button", name="Replay this page").click()
    expect(page.locator("#crawls-message")).to_contain_text("1 page is tried again, in crawl 2.")
    until(
        lambda: (
            rows(engine, f"SELECT status FROM pages WHERE id = {page_id}")
            in ([("ok",)], [("unchanged",)])
        ),
        60,
    )
    assert address.startswith(shop.url)
    until(lambda: not progress.read_one(engine, 2).active, 30)
    window.assert_quiet()

    for where in ("/crawls", f"/crawls/{crawl_id}"):
        for size in (WIDE, NARROW):
            window.turn("dark", size).open(where)
            # The page follows the scheme without being loaded again.
            for scheme in ("dark", "light"):
                window.turn(scheme, size)
                expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
                assert window.overflows() == [], (scheme, size, where)
    window.assert_quiet()


def test_a_fleet_at_a_glance(flower: Flower, browser: Browser, engine: sa.Engine) -> None:
    for name in (f"shop-{index:02}" for index in range(60)):
        crawl = open_crawl(
            engine,
            a_site(
                name,
                timezone="Asia/Tokyo",
                schedule="0 6 28 12 *",
                tags=["garden"] if name.endswith("5") else [],
            ),
        )
        add(engine, [new_page(crawl, url) for url in urls(5, f"{name}.example")])
        if name in ("shop-07", "shop-41"):
            give_up(engine, crawl, urls(2, f"bad-{name}.example"), error=EVIL)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                """UPDATE crawls SET status = 'failed', note = 'unreachable: connection refused',
                          finished_at = now()
                    WHERE site_id IN (SELECT id FROM sites WHERE name = 'shop-33');
                   UPDATE crawls SET fresh = 1000, unchanged = 1000, product_done = 1050,
                          product_total = 1050, status = 'completed', finished_at = now()
                    WHERE site_id IN (SELECT id FROM sites WHERE name = 'shop-12');
                   UPDATE crawls SET started_at = now() - interval '1 h' WHERE status = 'running';
                   UPDATE crawls SET started_at = now() - interval '40 d' WHERE status = 'failed'
                """
            )
        )
    ((running, done, failed),) = rows(
        engine,
        """SELECT count(*), sum(discovery_done + product_done), sum(dead + invalid)
             FROM crawls WHERE status = 'running'""",
    )
    window = Window(browser, flower)
    for size in (WIDE, {"width": 390, "height": 780}):
        page = window.turn("dark", size).open("/crawls")
        # The page follows the scheme without being loaded again.
        for scheme in ("dark", "light"):
            window.turn(scheme, size)
            expect(page.locator("html")).to_have_attribute("data-bs-theme", scheme)
            assert number(page, "Crawls running") == str(running)
            assert number(page, "Pages done") == str(done)
            assert number(page, "Dead and invalid") == str(failed)
            table = page.locator(".fleet-table tbody tr")
            assert [table.nth(row).get_attribute("data-site") for row in range(3)] == [
                *("shop-33", "shop-07", "shop-41")
            ]
            expect(table.first.locator(".fleet-why")).to_be_visible()
            expect(table.first).to_contain_text("unreachable: connection refused")
            assert window.overflows() == [], (scheme, size)
            if size is WIDE:
                heights = table.evaluate_all("rows => rows.map((row) => row.offsetHeight)")
                assert len(heights) == 50 and max(heights) <= 44, heights
                cut = """() => [...document.querySelectorAll('.fleet-table td:not(.fleet-site)')]
                    .filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.innerText)"""
                page.set_viewport_size({"width": 1180, "height": 860})
                assert page.evaluate(cut) == []
                expect(page.locator(".fleet-table thead")).to_contain_text("CE")
            else:
                assert table.first.evaluate("(row) => row.offsetHeight") < 80
            window.assert_quiet()

    page = window.turn("light", WIDE).open("/crawls")
    table = page.locator(".fleet-table tbody tr")
    expect(page.locator("#pager")).to_contain_text("60 sites, page 1 of 2")
    page.get_by_role("button", name="Next").click()
    expect(table).to_have_count(10)
    page.get_by_role("searchbox", name="Search sites").fill("shop-12")
    expect(table).to_have_count(1)
    expect(table).to_contain_text("fetched 50, not due 1,000")
    page.reload()
    window.drawn()
    expect(table).to_have_count(1)
    page.get_by_role("searchbox", name="Search sites").fill("")
    page.get_by_role("combobox", name="State").select_option("completed")
    expect(table).to_have_count(1)
    expect(page.locator("#fleet script, #fleet img")).to_have_count(0)
    page.get_by_role("combobox", name="State").select_option("")
    page.get_by_role("combobox", name="Tag").select_option("garden")
    expect(page.locator("#pager")).to_have_text("6 sites")
    page.get_by_role("combobox", name="Tag").select_option("")
    page.locator("#states").get_by_role("button", name="failed 1").click()
    expect(table).to_have_count(1)
    page.locator("#states").get_by_role("button", name="failed 1").click()
    page.get_by_role("button", name="Site", exact=True).click()
    expect(table.first).to_contain_text("shop-00")
    page.get_by_role("combobox", name="Show").select_option("crawls")
    expect(page.locator("#pager")).to_contain_text("60 crawls")
    window.assert_quiet()


def test_a_price_in_a_click(flower: Flower, browser: Browser, engine: sa.Engine) -> None:
    shop = Shop(engine)
    shop.once("10", "https://shop.example/p/10", title="Pot")
    for price in ("10.00", "8.00", "12.00"):
        was = {"list_price": Decimal("15.00"), "list_price_currency": "EUR"}
        shop.once("7/&?'", title=EVIL, price=Decimal(price), price_currency="EUR", **was)
    window = Window(browser, flower)
    page = window.open("/crawls/sites/shop")
    expect(page.locator("#site-changes tbody tr")).to_have_count(5)
    expect(page.locator("#site-changes tbody tr").first).to_contain_text("8.00 EUR → 12.00 EUR")
    expect(page.locator("#days .chart-figure")).to_have_count(0)
    assert window.measure("#site-changes")["y"] < window.measure("#site-crawls")["y"]
    window.assert_quiet()
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE crawls SET finished_at = now() - interval '7 days' WHERE id = 1")
        )
    for size in (WIDE, {"width": 390, "height": 780}):
        window.turn("light", size).open("/crawls")
        page.get_by_role("link", name="shop", exact=True).click()
        window.drawn()
        expect(page.locator("#site-crawls tbody tr")).to_have_count(4)
        expect(page.get_by_role("img", name="New a day: 1 on")).to_be_visible()
        expect(page.get_by_role("img", name="Price changes a day: 2 on")).to_be_visible()
        expect(page.locator("#about")).to_contain_text("Crawled")
        page.locator("#site-definition summary").click()
        expect(page.locator("#site-definition pre")).to_contain_text('"product"')
        assert window.overflows() == []
        page.locator("#site-table summary").click()
        expect(page.locator("#site-table tbody tr")).to_have_count(2)
        page.locator("#actions").get_by_role("link", name="Products").click()
        window.drawn()
        expect(page.locator("#products tbody tr")).to_have_count(2)
        if size is not WIDE:
            price = window.measure("#products tbody tr .num")
            assert price["right"] <= size["width"], "seen at once"
        page.get_by_role("searchbox", name="Search products").fill("onerror")
        expect(page.locator("#products tbody tr")).to_have_count(1)
        expect(page.locator("#products tbody tr")).to_contain_text("12.00 EUR")
        with page.expect_download() as download:
            page.get_by_role("link", name="Export as CSV").click()
        assert download.value.suggested_filename == "shop.csv"
        assert len(download.value.path().read_text().splitlines()) == 2, "what is shown"
        page.get_by_role("link", name="7/&?").click()
        window.drawn()
        expect(page.locator("#offer .metric-card").first).to_contain_text("was 8.00 EUR, +50.0%")
        expect(page.locator("#offer .metric-card").nth(1)).to_contain_text("20.0 % lower")
        expect(page.get_by_role("img", name="price and list_price over time")).to_be_visible()
        page.locator("#prices summary").click()
        expect(page.locator("#prices tbody tr")).to_have_count(3)
        expect(page.locator("#prices tbody tr").first).to_contain_text("12")
        expect(page.locator("#changes tbody tr").first).to_contain_text("+50.0%")
        expect(page.locator("#values tr", has_text="12.00 EUR")).to_be_visible()
        expect(page.locator("#values code")).to_be_hidden()
        page.locator("#values summary").click()
        expect(page.locator("#seen tbody tr")).to_have_count(3)
        expect(page.locator("#seen tbody tr").last).to_contain_text("brought it")
        expect(page.locator("h1")).to_contain_text("<script>")
        command = shlex.join(["scraper", "why", "shop", "7/&?'"])
        expect(page.locator("#values code")).to_have_text(command)
        assert window.overflows() == [] and page.title() == "Products · Scraper"
        window.assert_quiet()


def test_a_suspect_crawl_is_looked_at_and_rejected(
    flower: Flower, browser: Browser, engine: sa.Engine
) -> None:
    for _ in range(2):
        crawled(engine, shop(), range(30))
    crawl = crawled(engine, shop(), range(30), lambda n: without(good(n), "price"))
    window = Window(browser, flower)
    for size, scheme in ((WIDE, "light"), ({"width": 390, "height": 780}, "dark")):
        page = window.turn(scheme, size).open(f"/crawls/{crawl.id}")
        expect(page.locator("#reasons")).to_contain_text("Why it is suspect")
        expect(page.locator("#note")).to_have_text("")
        expect(page.locator("#reasons li")).to_have_count(3)
        expect(page.locator("#reasons tbody tr").first).to_contain_text("30")
        page.get_by_role("button", name="Reject").click()
        expect(page.locator("#crawls-message")).to_contain_text("30 held values go")
        expect(page.get_by_role("button", name="Really reject?")).to_be_visible()
        assert crawl.row.reasons[-1]["what"] != "rejected", "it was only asked"
        assert window.overflows() == []
        if scheme == "dark":
            page.get_by_role("button", name="Really reject?").click()
            expect(page.get_by_role("button", name="Accept")).to_have_count(0)
            assert crawl.row.reasons[-1]["what"] == "rejected"
        window.assert_quiet()


def test_a_wrong_login_sees_nothing(flower: Flower, browser: Browser, engine: sa.Engine) -> None:
    open_crawl(engine, a_site("secretshop"))
    window = Window(browser, flower, login=False)
    answer = window.page.goto(f"{flower.url}/crawls")
    assert answer is not None and answer.status == 401
    assert "secretshop" not in window.page.content()


def test_a_request_without_the_token_is_refused_though_the_browser_is_logged_in(
    flower: Flower, browser: Browser, engine: sa.Engine
) -> None:
    open_crawl(engine, a_site())
    window = Window(browser, flower)
    page = window.open("/crawls/1")
    post = "(token) => fetch('/api/crawls/1/stop', {method: 'POST', body: '{}', headers: token}).then((a) => a.status)"
    assert page.evaluate(post, {}) == 403
    assert page.evaluate(post, {"X-XSRFToken": "guessed"}) == 403
    assert rows(engine, "SELECT status FROM crawls") == [("running",)]


def test_what_a_shop_sends_stays_text(flower: Flower, browser: Browser, engine: sa.Engine) -> None:
    crawl = open_crawl(engine, a_site())
    give_up(engine, crawl, urls(1), error=EVIL, excerpt=EVIL)
    window = Window(browser, flower)
    page = window.open("/crawls/1")
    page.locator("#dead summary").click()
    expect(page.locator("#dead pre")).to_have_text(EVIL.replace("\u202e", "\ufffd"))
    expect(page.locator("#dead .crawl-dead-body")).to_contain_text("<script>")
    expect(page.locator("#errors .crawl-card")).to_have_count(0)
    assert (
        page.locator("#crawls-page img").count() == page.locator("#crawls-page script").count() == 0
    )
    assert page.title() == "Crawl 1 · Scraper"
    window.assert_quiet()


def test_a_hidden_tab_asks_for_nothing(flower: Flower, browser: Browser, engine: sa.Engine) -> None:
    open_crawl(engine, a_site())
    window = Window(browser, flower)
    page = window.open("/crawls")
    hide = """(hidden) => {
        Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    # Otherwise the page would ask later than the test looks.
    assert page.evaluate("window.hastened") > 0
    # An answer is under way, and is drawn.
    page.evaluate(f"""() => new Promise((drawn) => {{
        const ask = window.fetch;
        window.fetch = async (...asked) => {{
            const answer = await ask(...asked);
            if (!answer.ok) return answer;
            window.fetch = ask;
            ({hide})(true);
            new MutationObserver(() => drawn()).observe(document.getElementById('crawls-page'), {{attributeFilter: ['data-refreshed']}});
            return answer;
        }};
    }})""")
    asked = len(window.asked)
    page.wait_for_timeout(3 * SOON_MS)
    assert len(window.asked) == asked
    expect(page.locator("#crawls-refreshed")).to_have_text("Paused while hidden")
    page.evaluate(hide, False)
    window.drawn()
    assert len(window.asked) > asked
