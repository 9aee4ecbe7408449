"""The plug-in `browser` in a worker."""

from __future__ import annotations

from scraper.http.page_browser import PageBrowser
from scraper.plugin import WorkerPart
from scraper.plugins.browser.pool import Browsers
from scraper.worker.host import WorkerHost


class BrowserPart(WorkerPart):
    def __init__(self, host: WorkerHost) -> None:
        super().__init__(host)
        self.browser: PageBrowser = Browsers(host.settings)

    async def aclose(self, within_s: float) -> None:
        await self.browser.aclose()
