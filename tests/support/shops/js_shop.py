"""A shop that is nothing without JavaScript: a script draws its listing, "load more" extends it,
products are JSON alone."""

from __future__ import annotations

import asyncio
import json
import threading
import time

from tests.support.shops.odd_shop import Answer, OddShop

PER_LOAD = 6

LISTING = """<!doctype html><html><body><div id="list"></div><button class="more" hidden>Load more</button>
<div style="position:fixed;inset:0;z-index:9">We use cookies <button>Accept</button></div>
<img src="/picture.png"><script>
let at = 0;
const button = document.querySelector('button.more');
async function load() {
  const got = await (await fetch('/api/list?from=' + at)).json();
  for (const id of got.items) {
    const a = document.createElement('a'); a.className = 'p'; a.href = '/p/' + id; a.textContent = id;
    document.getElementById('list').append(a);
  }
  at += got.items.length; button.hidden = !got.more;
}
button.addEventListener('click', load); load();
</script></body></html>"""

ENDLESS = (
    LISTING.replace(
        '<button class="more" hidden>Load more</button>', '<div class="end">&nbsp;</div>'
    )
    .replace(
        "const button = document.querySelector('button.more');",
        "const button = {addEventListener() {}};",
    )
    .replace(
        "load();\n</script>",
        """
let busy = false, more = true;
async function next() { if (busy || !more) return; busy = true; await load(); more = !button.hidden; busy = false; }
new IntersectionObserver(seen => { if (seen.some(one => one.isIntersecting)) next(); })
  .observe(document.querySelector('.end'));
</script><style>a.p { display: block; height: 300px }</style>""",
    )
)

PRODUCT = """<!doctype html><html><body><h1></h1><p class="price"></p><script>
fetch('/api/product/' + location.pathname.split('/').pop()).then(r => r.json()).then(one => {
  document.querySelector('h1').textContent = one.name;
  document.querySelector('.price').textContent = one.price + ' €';
});</script></body></html>"""

# Fills real memory, says so, and is done when the shop lets it.
HUNGRY = """<script>
const kept = [];
for (let mb = 0; mb < %d; mb += 50) kept.push(new Uint8Array(50 << 20).fill(1));
fetch('/filled?%s').then(() => fetch('/until')).then(() => {
  document.body.append(Object.assign(document.createElement('p'), {className: 'done', textContent: kept.length})); });
</script>"""


class JsShop(OddShop):
    """Sells `products`: numbers from 1 on. `truth` is what a crawl must find: id -> (name, price,
    stock)."""

    def __init__(self, products: int = 20) -> None:
        super().__init__()
        self.truth = {str(n): (f"Thing nº {n}", f"{n}.90", n * 3) for n in range(1, products + 1)}

    def open(self) -> str:
        ids = list(self.truth)
        self.serve("/robots.txt", Answer(b"User-agent: *\nDisallow: /private\n", kind="text/plain"))
        self.serve("/all", LISTING.encode())
        self.serve("/endless", ENDLESS.encode())
        for start in range(0, len(ids) + 1, PER_LOAD):
            items = ids[start : start + PER_LOAD]
            self.serve(
                f"/api/list?from={start}",
                a_json({"items": items, "more": start + PER_LOAD < len(ids)}),
            )
        for id_, (name, price, stock) in self.truth.items():
            self.serve(f"/p/{id_}", PRODUCT.encode())
            self.serve(
                f"/api/product/{id_}",
                a_json({"name": name, "price": price, "offer": {"stock": [stock]}}),
            )
        return self.url("/all")

    def definition(self, more: str = "") -> str:
        return f"""
start: {self.url("/all")}
queue: browser
rate: unlimited
concurrency: 4
revisit: 0
allow_private: true
browser:
  click: button.more
  responses: {{api: "/api/product/"}}
listing: {{products: a.p}}
product:
  id: {{url: "/p/(.+)"}}
  fields:
    name: {{css: h1, required: true}}
    price: {{css: .price, type: price, required: true}}
    stock: {{response: api, path: "$.offer.stock", type: int}}
{more}"""

    def asked_for(self, word: str) -> list[str]:
        return [target for _, _, target in self.requests if word in target]


class HungryShop(JsShop):
    """Has pages that fill memory, each for as long as `done` is not set. They ask for /filled?NAME
    when they have."""

    def __init__(self, products: int = 20) -> None:
        super().__init__(products)
        self.done = threading.Event()

    def open(self) -> str:
        self.serve("/until", self._until)
        return super().open()

    async def _until(self, writer: asyncio.StreamWriter) -> None:
        while not self.done.is_set():
            await asyncio.sleep(0.05)
        writer.write(a_json({}).raw())
        await writer.drain()

    def hungry(self, name: str, mb: int, page: str = "") -> str:
        """A page at /NAME that fills this many MB, whatever else it shows: its name, unless `page` is
        given."""
        self.serve(f"/filled?{name}", a_json({}))
        return self.serve(
            f"/{name}", ((page or f"<!doctype html><h1>{name}</h1>") + HUNGRY % (mb, name)).encode()
        )


def a_json(value: object) -> Answer:
    return Answer(json.dumps(value).encode(), kind="application/json")


class Heard(OddShop):
    """Keeps the heads of all requests: fields by their names in small letters, and `path`."""

    def __init__(self) -> None:
        super().__init__()
        self.heads: list[dict[str, str]] = []

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        while not writer.transport.is_closing():
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            fields = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines)
            }
            self.heads.append({**fields, "path": first.split(" ")[1]})
            await self._answer(first.split(" ")[1], writer, port)


class Echo(OddShop):
    """Answers each document with the cookies and the token that its request had, and sets a cookie
    more."""

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        while not writer.transport.is_closing():
            head = await reader.readuntil(b"\r\n\r\n")
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            said = b"cookie=[%b] token=[%b]" % (
                fields.get(b"cookie", b""),
                fields.get(b"x-token", b""),
            )
            writer.write(Answer(said, headers=("Set-Cookie: seen=1; Path=/",)).raw())
            await writer.drain()


class ForBrowsersOnly(JsShop):
    """Refuses documents to clients that do not ask for them as browsers do."""

    async def _connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int
    ) -> None:
        while not writer.transport.is_closing():
            head = await reader.readuntil(b"\r\n\r\n")
            target = head.split(b" ", 2)[1].decode("latin-1")
            if (
                target.startswith(("/all", "/p/"))
                and b"upgrade-insecure-requests" not in head.lower()
            ):
                self.requests.append((time.monotonic(), port, target))
                writer.write(Answer(b"<h1>not for you</h1>", 403).raw())
            else:
                await self._answer(target, writer, port)
