"""Fields corrected by a click on a recorded page in a headless Chromium, and pages that were made to
run or load something there."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from scraper.settings import Settings
from scraper.sites.loader import load_file
from tests.acceptance.tab_window import PHONE, Window, picture
from tests.support.servers.flower import Flower
from tests.support.shops.shop_templates import TEMPLATES
from tests.support.shops.static_shop import StaticShop

# What must neither run nor load: {spy} is a server that counts who asks.
ATTACKS = """
<script>top.document.title = 'owned'; fetch('{spy}/script')</script>
<script src="{spy}/script.js"></script><script src="/crawls/assets/crawls.js"></script>
<meta http-equiv="refresh" content="0; url={spy}/refresh"><base href="{spy}/base/">
<link rel="stylesheet" href="{spy}/link.css"><link rel="preload" as="image" href="{spy}/preload">
<style>@import '{spy}/import.css'; body {{ background: url({spy}/background) }}</style>
<img src="{spy}/img" onerror="top.document.title = 'owned'" alt="<b>alt</b>" srcset="{spy}/set 2x">
<svg onload="top.document.title = 'owned'"><image href="{spy}/svg"/><script>top.x = 1</script></svg>
<math><mtext><table><mglyph><style><img src=x onerror="top.document.title = 'owned'"></style></table></mtext></math>
<iframe src="{spy}/frame"></iframe><iframe srcdoc="<script>top.document.title='owned'</script>"></iframe>
<object data="{spy}/object"></object><embed src="{spy}/embed"><video poster="{spy}/poster"></video>
<form action="{spy}/form" target="_top"><button autofocus onfocus="top.document.title='owned'">Go</button>
<input type="image" src="{spy}/input" value="typed"></form>
<a href="javascript:top.document.title='owned'" id="a" onclick="top.document.title='owned'">Sizes</a>
<p style="background: url({spy}/style)" onmouseover="top.document.title = 'owned'">styled &lt;script&gt;x&lt;/script&gt;</p>
<details ontoggle="top.document.title = 'owned'" open><summary>x</summary></details>
<noscript><p title="</noscript><img src=x onerror=top.document.title='owned'>"></noscript>
<template><img src="{spy}/template"></template><plaintext-x onclick=1>custom</plaintext-x>
"""


def open_picker(page: Page, server: StaticShop) -> Page:
    """Reads the shop, and opens the picker of what was found."""
    page.get_by_label("Addresses of shops").fill(f"{server.url}/all")
    page.get_by_label("Requests while reading").fill("50/s")
    page.get_by_role("button", name="Read shops").click()
    expect(page.locator("#survey-fields")).to_contain_text("price", timeout=120_000)
    page.get_by_role("button", name="Correct a field by a click").click()
    expect(page.locator("iframe[data-elements]")).to_be_visible(timeout=120_000)
    return page


def test_two_fields_are_corrected_by_a_click_and_by_keyboard(
    environment: Settings, flower: Flower, browser: Browser
) -> None:
    shop = TEMPLATES["workshop"]()
    window = Window(browser, flower)
    with StaticShop(shop.pages) as server:
        page = open_picker(window.open("/crawls/setup"), server)
    picture(window, "picker-1-page")
    area = page.get_by_label("YAML", exact=True)

    # The price is read from another element, on purpose, and then again from its own.
    page.get_by_label("Field", exact=True).select_option("price")
    frame = page.frame_locator("#picker iframe")
    frame.locator("del").first.click()
    proposals = page.locator("#picker-proposals details")
    expect(proposals.first).to_contain_text("of 12 pages", timeout=60_000)
    expect(proposals.first).to_contain_text("4 of 12 pages")
    picture(window, "picker-2-proposal")
    proposals.first.get_by_role("button", name="Use this source").click()
    expect(page.locator("#picker-proposals")).to_contain_text(
        "price: read on 4 of 12 pages", timeout=60_000
    )
    frame.locator("span", has_text=re.compile(r"^£\d")).first.click()
    expect(proposals.first).to_contain_text("12 of 12 pages", timeout=60_000)
    proposals.first.get_by_role("button", name="Use this source").press("Enter")
    expect(page.locator("#picker-proposals")).to_contain_text(
        "price: read on 12 of 12 pages", timeout=60_000
    )

    # A field that the survey did not find, by keyboard alone.
    page.get_by_label("Field", exact=True).select_option("mpn")
    page.get_by_label("Text on the page").fill("brand:")
    page.locator("#picker-hits").get_by_role("button").first.press("Enter")
    expect(proposals.first).to_contain_text("12 of 12 pages", timeout=60_000)
    proposals.first.get_by_role("button", name="Use this source").press("Enter")
    expect(area).to_have_value(re.compile(r"\n    mpn: "), timeout=60_000)
    expect(page.locator("#definition-problems")).to_contain_text("No errors", timeout=60_000)
    page.get_by_label("Name", exact=True).fill("garden")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("garden.yaml is saved", timeout=60_000)
    fields = load_file(environment.sites_dir / "garden.yaml").product.fields
    assert fields["price"].type == "price" and fields["price"].css and fields["mpn"].css

    window.assert_quiet()
    # The pages that were read serve the saved site too. One search runs at a time, and the other window asks again.
    windows = [window, Window(browser, flower)]
    buttons = [
        each.open("/crawls/setup?site=garden").get_by_role(
            "button", name="Correct a field by a click"
        )
        for each in windows
    ]
    for button in buttons:
        button.click()
    for each in windows:
        expect(each.page.locator("iframe[data-elements]")).to_be_visible(timeout=60_000)
        each.assert_quiet()
    for scheme in ("light", "dark"):
        narrow = window.turn(scheme, PHONE)
        # The page follows the scheme without being loaded again.
        expect(narrow.page.locator("html")).to_have_attribute("data-bs-theme", scheme)
        picture(narrow, f"picker-3-narrow-{scheme}")
        assert narrow.overflows() == []
        narrow.assert_quiet()


def test_nothing_of_a_hostile_page_runs_or_is_loaded(flower: Flower, browser: Browser) -> None:
    shop = TEMPLATES["workshop"]()
    window = Window(browser, flower)
    dialogs: list[str] = []
    window.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    window.page.context.on("page", lambda opened: dialogs.append(opened.url))
    with StaticShop({}) as spy, StaticShop({}) as server:
        padding = f"<!-- {'x' * 5000} -->"
        attacks = ATTACKS.format(spy=spy.url) + "<i>x</i>" * 12_000
        server.pages = {
            # A crawl itself follows a refresh at the beginning of a page.
            path: f"{text}{padding}{attacks}" if "/item/" in path else text
            for path, text in shop.pages.items()
        }
        page = open_picker(window.open("/crawls/setup"), server)
        frame = page.locator("#picker iframe")
        assert frame.get_attribute("sandbox") == "allow-same-origin"
        expect(page.locator("#picker")).to_contain_text("The page is long")
        inside = page.frame_locator("#picker iframe")
        for text in ("Sizes", "custom", "typed", "Go"):
            inside.get_by_text(text, exact=True).first.click()
            page.wait_for_timeout(300)
        left = frame.evaluate(
            """(frame) => {
                const all = [...frame.contentDocument.querySelectorAll('*')];
                return {names: [...new Set(all.map((e) => e.localName))].sort(),
                        attributes: [...new Set(all.flatMap((e) => [...e.attributes].map((a) => a.name)))].sort(),
                        address: frame.contentWindow.location.href};
            }"""
        )
        assert not {
            "script",
            "style",
            "link",
            "meta",
            "base",
            "img",
            "svg",
            "form",
            "iframe",
            "a",
        } & (set(left["names"]))
        assert set(left["attributes"]) <= {"data-element", "class", "style"}
        assert left["address"] == "about:srcdoc"
        # Even what a script of the tab puts there by mistake neither runs nor loads.
        frame.evaluate(
            """(frame, spy) => { frame.contentDocument.body.innerHTML =
                `<img src="${spy}/late" onerror="top.document.title='owned'"><style>@import '${spy}/late.css'</style>`; }""",
            spy.url,
        )
        page.wait_for_timeout(1000)
        refused = [line for line in window.said if "Content Security Policy" in line]
        assert refused and spy.asked == []
        window.said[:] = [
            line for line in window.said if line not in refused and "sandboxed" not in line
        ]
        assert page.title() != "owned" and page.evaluate("window.x") is None and dialogs == []
    window.said[:] = []
    assert [url for url in window.asked if not url.startswith(("data:", flower.url))] == [
        url for url in window.asked if url.startswith(spy.url)
    ]
