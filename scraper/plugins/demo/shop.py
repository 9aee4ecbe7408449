"""The sample shop's state: its visit, its options, its log, and the answer to each request.

Each answer is rendered once a visit and kept.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter, deque
from dataclasses import dataclass, replace
from http import HTTPStatus
from random import Random
from urllib.parse import parse_qs

from scraper.plugins.demo import pages
from scraper.plugins.demo.catalogue import Catalogue, ShopGeneration
from scraper.plugins.demo.changes import PriceChanges
from scraper.plugins.demo.faults import Fault, ShopOptions, choose_fault
from scraper.plugins.demo.pictures import draw_picture

LOG_MAX = 2_000_000
RENDERED_AHEAD_MAX = 20_000
PAGES_MAX = 200_000
HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ShopAnswer:
    """A response, ready to send; HEAD gets only `head`."""

    status: int
    head: bytes
    body: bytes
    etag: bytes = b""

    @property
    def whole(self) -> bytes:
        return self.head + self.body


def make_answer(status: int, body: bytes, kind: str = HTML, **headers: str) -> ShopAnswer:
    etag = f'"{zlib.crc32(body):08x}"'
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
    ]
    if status == HTTPStatus.OK:
        lines.append(f"ETag: {etag}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ShopAnswer(status, "\r\n".join([*lines, "", ""]).encode(), body, etag.encode())


class Shop:
    """The shop at its current visit. Not safe for two threads."""

    def __init__(self, catalogue: Catalogue, options: ShopOptions, base_url: str = "") -> None:
        self.catalogue, self.options, self.base_url = catalogue, options, base_url
        self.log: deque[tuple[float, bytes, int]] = deque(maxlen=LOG_MAX)
        self.jitter = Random(catalogue.seed)
        self.attempts: Counter[str] = Counter()
        self.generation: ShopGeneration
        self.go_to_visit(1)

    def go_to_visit(self, visit: int) -> None:
        """Moves to a visit. Raises ValueError for other numbers."""
        generation = self.catalogue.at(visit)
        # Prices change in a copy.
        self.generation = replace(generation, items=dict(generation.items))
        self.changes = PriceChanges(self.generation.items, self.catalogue.seed)
        self.attempts.clear()
        self._forget_pages()

    def _forget_pages(self) -> None:
        self._pages: dict[bytes, ShopAnswer] = {}
        self._packed: dict[bytes, ShopAnswer] = {}
        self._sitemaps: dict[str, bytes] = {}

    def change_prices(self, now: float) -> None:
        """Makes the changes that have come by now, with `change_rate`."""
        if self.changes.make_until(now, self.options.change_rate):
            self._forget_pages()

    def render_ahead(self) -> None:
        """Renders the products of a shop of usual size, so that no crawl waits for them."""
        if len(self.generation.items) > RENDERED_AHEAD_MAX:
            return
        for item in self.generation.items.values():
            self.page(item.path.encode())

    def page(self, target: bytes) -> ShopAnswer:
        """Returns the page at a request target, without faults."""
        page = self._pages.get(target)
        if page is None:
            page = self._render_page(target.decode("latin-1"))
            # Clients choose the targets, so their number has a bound.
            if len(self._pages) < PAGES_MAX:
                self._pages[target] = page
        return page

    def packed(self, target: bytes) -> ShopAnswer:
        """Returns the page compressed by gzip."""
        packed = self._packed.get(target)
        if packed is None:
            packed = self.page(target)
            if packed.status == HTTPStatus.OK and b"gzip" not in packed.head:
                body = gzip.compress(packed.body, 5, mtime=0)
                packed = make_answer(200, body, Content_Encoding="gzip", Vary="Accept-Encoding")
            self._packed[target] = packed
        return packed

    def _render_page(self, target: str) -> ShopAnswer:
        path, _, query = target.partition("?")
        match path.split("/")[1:]:
            case [""]:
                return make_answer(200, pages.home_page(self.generation))
            case ["all"]:
                return self._render_listing("all", query)
            case ["c", name] if name in self.generation.listings and name != "all":
                return self._render_listing(name, query)
            case ["p", slug]:
                return self._render_product(slug)
            case ["robots.txt"]:
                return make_answer(200, pages.robots_text(self.base_url), "text/plain")
            case ["img", name]:
                return make_answer(200, draw_picture(name), "image/png")
            case ["basket" | "search" | "imprint"]:
                return make_answer(
                    200, pages.notice_page(path[1:].title(), "Nothing for crawlers here.")
                )
        self._sitemaps = self._sitemaps or pages.write_sitemaps(self.generation, self.base_url)
        if path in self._sitemaps:
            kind = "application/gzip" if path.endswith(".gz") else "application/xml"
            return make_answer(200, self._sitemaps[path], kind)
        return make_answer(404, pages.notice_page("Not found", "This page does not exist."))

    def _render_listing(self, name: str, query: str) -> ShopAnswer:
        number = parse_qs(query).get("page", ["1"])[0]
        body = pages.listing_page(
            self.generation, name, int(number) if number.isdecimal() else 0, self.base_url
        )
        return (
            make_answer(404, pages.notice_page("Not found", "This page does not exist."))
            if body is None
            else make_answer(200, body)
        )

    def _render_product(self, slug: str) -> ShopAnswer:
        number = slug.partition("-")[0]
        item = (
            self.generation.items.get(int(number))
            if number.isdecimal() and len(number) < 12
            else None
        )
        if item is None:
            gone = number.isdecimal() and number[-1] in "02468"
            return make_answer(
                410 if gone else 404, pages.notice_page("Gone", "We no longer sell this.")
            )
        if slug != item.path.removeprefix("/p/"):
            return make_answer(301, b"", Location=item.path)
        others = (self.generation.items.get(item.id + step) for step in (1, 5, 12, 31, 58, 77))
        return make_answer(
            200, pages.product_page(item, [other for other in others if other], self.base_url)
        )

    def next_fault(self, target: bytes) -> Fault | None:
        """Counts the attempt and returns its fault. During an outage, attempts do not count."""
        if self.options.outage is not None:
            return self.options.outage
        if not (self.options.fail_share or self.options.hang_share) or not target.startswith(
            b"/p/"
        ):
            return None
        path = target.partition(b"?")[0].decode("latin-1")
        self.attempts[path] += 1
        return choose_fault(
            self.options, self.catalogue.seed, path, self.generation.visit, self.attempts[path]
        )

    def draw_delay_s(self) -> float:
        mean_ms = self.options.latency_ms
        return mean_ms * self.jitter.uniform(0.5, 1.5) / 1000 if mean_ms else 0.0

    def answer_control(
        self, method: str, path: str, query: dict[str, list[str]], body: bytes
    ) -> object:
        """Returns the answer of `/_control/*` and `/_visit`, as JSON. Raises ValueError for bad
        values and KeyError for unknown paths."""
        match method, path:
            case "POST", "/_visit":
                self.go_to_visit(self.generation.visit + 1)
                self.render_ahead()
                return {"visit": self.generation.visit}
            case _, "/_control/visit":
                if "n" in query:
                    self.go_to_visit(int(query["n"][0]))
                    self.render_ahead()
                return {"visit": self.generation.visit}
            case "POST", "/_control/options":
                self.options = ShopOptions.model_validate(
                    {**self.options.model_dump(), **json.loads(body)}
                )
                return self.options.model_dump()
            case "GET", "/_control/options":
                return self.options.model_dump()
            case "GET", "/_control/truth":
                visit = int(query.get("visit", [str(self.generation.visit)])[0])
                if visit != self.generation.visit:
                    return self.catalogue.truth(visit, self.base_url)
                return [item.record(self.base_url) for item in self.generation.items.values()]
            case "GET", "/_control/changes":
                return self.changes.changes
            case "GET", "/_control/log" if "counts" in query:
                return Counter(target.decode("latin-1") for _, target, _ in self.log)
            case "GET", "/_control/log":
                return [(at, target.decode("latin-1"), status) for at, target, status in self.log]
            case "DELETE", "/_control/log":
                self.log.clear()
                return []
        raise KeyError(path)
