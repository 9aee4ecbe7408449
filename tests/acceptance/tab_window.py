"""The Crawls tab in a browser's window."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from playwright.sync_api import Browser, Page, expect

from tests.support.servers.flower import Flower

# A busy machine draws late; a page that never draws it fails all the same.
expect.set_options(timeout=60_000)

# Without it, Playwright looks at each frame, and Chromium draws 60 of them a second.
POLLING_MS = 100
# The page asks again after 3 to 20 seconds, and here sooner. No test waits as long as a person looks.
SOON_MS = 700
SOON = f"""(() => {{
    const wait = window.setTimeout;
    window.hastened = 0;
    window.setTimeout = (work, ms, ...more) => {{
        const soon = work.name === 'refresh';
        window.hastened += soon;
        return wait(work, soon ? {SOON_MS} : ms, ...more);
    }};
}})()"""
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 360, "height": 740}
PHONE = {"width": 390, "height": 844}
PICTURES = os.environ.get("SCRAPER_TEST_PICTURES")


class Window:
    """A tab of the browser; what it says in its console, and where it goes, is kept."""

    def __init__(
        self,
        browser: Browser,
        flower: Flower,
        *,
        scheme: str = "light",
        login: bool = True,
        **more: Any,
    ) -> None:
        user, password = more.get("user", flower.login)
        credentials = {"username": user, "password": password if login else "wrong"}
        self.context = browser.new_context(
            http_credentials=credentials, color_scheme=scheme, viewport=more.get("size", WIDE), locale="en-GB",
            timezone_id="Europe/Berlin",
        )  # fmt: skip
        self.context.add_init_script(SOON)
        self.flower, self.page = flower, self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda told: self.said.append(f"{told.type}: {told.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.flower.url}{path}")
        return self.drawn()

    def turn(self, scheme: str, size: Any) -> Window:
        """Another scheme and size, for what is opened next."""
        self.page.emulate_media(color_scheme=cast(Any, scheme))
        self.page.set_viewport_size(size)
        return self

    def drawn(self, more: int = 1) -> Page:
        """Waits until the page has drawn that number of new answers."""
        seen = int(self.page.locator("#crawls-page").get_attribute("data-refreshed") or 0)
        self.page.wait_for_function(
            f"() => Number(document.getElementById('crawls-page').dataset.refreshed || 0) >= {seen + more}",
            timeout=120_000,
            polling=POLLING_MS,
        )
        return self.page

    def measure(self, selector: str) -> dict[str, float]:
        """Returns the box of the selector's first element. In one step, since the page draws its rows
        again at any time."""
        box: dict[str, float] = self.page.evaluate(
            "(selector) => document.querySelector(selector).getBoundingClientRect().toJSON()",
            selector,
        )
        assert box["width"], f"{selector} is not drawn"
        return box

    def overflows(self) -> list[str]:
        """What reaches beyond the window's width, and does not scroll within a box of its own."""
        found: list[str] = self.page.evaluate("""() => {
            const wide = document.documentElement.scrollWidth > window.innerWidth ? ['the page'] : [];
            const inScroller = (e) => e.closest('.table-responsive, pre, .visually-hidden, .skip-link');
            for (const e of document.querySelectorAll('#crawls-page *')) {
                const box = e.getBoundingClientRect();
                if (box.width && box.right > window.innerWidth + 1 && !inScroller(e)) wide.push(e.outerHTML.slice(0, 80));
            }
            return wide; }""")
        return found

    def assert_quiet(self) -> None:
        """Nothing was said in the console, and no server but Flower was asked."""
        assert self.said == []
        assert [url for url in self.asked if not url.startswith(("data:", self.flower.url))] == []


def picture(window: Window, name: str) -> None:
    """Keeps a picture of the page, for people who ask for it."""
    if PICTURES:
        window.page.screenshot(path=str(Path(PICTURES) / f"{name}.png"), full_page=True)
