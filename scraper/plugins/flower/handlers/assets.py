"""The scripts, style sheets and pictures of the Crawls tab."""

from __future__ import annotations

import hashlib
from pathlib import Path

from scraper.plugins.flower.handlers.base import GuardedHandler
from scraper.plugins.flower.tab_pages import scripts_of, tab_pages

FOLDER = Path(__file__).parent.parent
ASSETS = {
    "crawls.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "uPlot.min.js": "text/javascript; charset=utf-8",
    "crawls.css": "text/css; charset=utf-8",
    "uPlot.min.css": "text/css; charset=utf-8",
    "uPlot.LICENSE": "text/plain; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def assets_version() -> str:
    """Returns a hash of the assets, so that browsers may cache each version."""
    own = [FOLDER / "assets" / name for name in ASSETS]
    scripts = [file for page in tab_pages().values() for file in scripts_of(page)]
    texts = [file.read_bytes() for file in (*own, *scripts)]
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]


class AssetHandler(GuardedHandler):
    """Scripts and style sheets, from a fixed list of names."""

    async def get(self, name: str) -> None:
        self.set_header("Content-Type", ASSETS[name])
        if self.get_query_argument("v", None) == self.version:
            self.set_header("Cache-Control", "private, max-age=86400")
        self.finish((FOLDER / "assets" / name).read_bytes())
