"""A shop whose pages have validators: honest by default, a liar on demand. `asked` has what it was
asked for, and how."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any
from uuid import uuid4

from scraper.sites.definition import Site
from tests.support.servers.threaded import Threaded
from tests.support.shops.odd_shop import HTML, Answer, listing, product

FIELDS = {"title": {"css": "h1", "required": True}, "price": {"css": ".price", "type": "price"}}


@dataclass(frozen=True)
class Asked:
    """A request and what it was answered with."""

    target: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def conditional(self) -> bool:
        return bool({"if-none-match", "if-modified-since"} & self.headers.keys())


class ConditionalShop(Threaded):
    """`prices` by product, changed at will; the listing at `/` links to what is in `listed`.

    `etags` and `modified` say what a page's validators are instead of its own ETag ({} of a
    product: none); `redirects` where a product's page leads to. With `always_304` every product
    page is answered 304, asked or not; with `deaf` none is, and with `nonces` none comes twice with
    the same bytes. `kinds` and `codes` are a product's
    Content-Type and status, `packed` says that bodies come as gzip.
    """

    def __init__(self, products: int = 6) -> None:
        super().__init__()
        self.prices = {number: f"{number}.90 €" for number in range(1, products + 1)}
        self.listed = list(self.prices)
        self.titles: dict[int, str] = {}
        self.ids: dict[int, str] = {}
        self.etags: dict[int, str | None] = {}
        self.modified: dict[int, str] = {}
        self.redirects: dict[int, str] = {}
        self.more: dict[int, str] = {}
        self.kinds: dict[int, str] = {}
        self.codes: dict[int, int] = {}
        self.packed = ""
        self.always_304 = self.deaf = self.nonces = False
        self.asked: list[Asked] = []

    def url(self, target: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{target}"

    def definition(self, **more: Any) -> Site:
        base = {
            "name": "shop",
            "start": self.url(),
            "allow_private": True,
            "robots": False,
            "rate": "unlimited",
            "revisit": "0",
            "limits": {"attempts": 2},
            "listing": {"products": "a.p"},
            "product": {"id": {"css": "body::attr(data-id)"}, "fields": FIELDS},
        }
        return Site.model_validate(base | more)

    def products(self) -> list[Asked]:
        return [one for one in self.asked if one.target.startswith("/p/")]

    def statuses(self) -> dict[int, int]:
        """How often each status was the answer for a product page."""
        found = [one.status for one in self.products()]
        return {status: found.count(status) for status in sorted(set(found))}

    def body(self, number: int) -> bytes:
        name, id_ = self.titles.get(number, f"No. {number}"), self.ids.get(number, str(number))
        return product(id_, name, self.prices[number], self.more.get(number, "")).encode()

    def etag(self, number: int) -> str | None:
        return self.etags.get(number, f'"{sha1(self.body(number)).hexdigest()[:12]}"')

    async def _listen(self) -> list[asyncio.Server]:
        server = await asyncio.start_server(self._tracked(self._connection), "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return [server]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.transport.is_closing():
            line, *rest = (
                (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
            )
            headers = {
                name.lower(): value for name, _, value in (each.partition(": ") for each in rest)
            }
            target = line.split(" ")[1]
            answer = self._answer(target, headers)
            self.asked.append(Asked(target, answer.status, headers))
            writer.write(answer.raw())
            await writer.drain()

    def _answer(self, target: str, headers: Mapping[str, str]) -> Answer:
        path = target.partition("?")[0]
        if path == "/":
            return Answer(
                listing([f"/p/{number}" for number in self.listed]), headers=('ETag: "the list"',)
            )
        number = int(path.rpartition("/")[2]) if path.startswith("/p/") else 0
        if number not in self.prices:
            return Answer(b"<h1>no such page</h1>", 404)
        if target == path and number in self.redirects:
            return Answer(status=302, headers=(f"Location: {self.redirects[number]}",))
        etag, modified = self.etag(number), self.modified.get(number)
        given = [f"ETag: {etag}"] if etag is not None else []
        given += (
            [f"Last-Modified: {modified}", "Date: Sat, 07 Nov 2026 10:00:00 GMT"]
            if modified
            else []
        )
        matches = headers.get("if-none-match") == etag if etag and "if-none-match" in headers else (
            modified is not None and headers.get("if-modified-since") == modified)  # fmt: skip
        if self.always_304 or (matches and not self.deaf and not self.nonces):
            return Answer(status=304, headers=tuple(given))
        body = self.body(number)
        if self.nonces:
            body += f"<script nonce={uuid4()}></script>".encode()
        if self.packed:
            body, given = gzip.compress(body, mtime=0), [*given, "Content-Encoding: gzip"]
        kind, code = self.kinds.get(number, HTML), self.codes.get(number, 200)
        return Answer(body, code, kind, headers=tuple(given))
