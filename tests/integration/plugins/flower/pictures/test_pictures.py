"""Pictures of products in a real Flower: from a shop that answers well, and from one that answers
with all but a picture."""

from __future__ import annotations

import asyncio
import gzip
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from scraper.actions import overrides
from scraper.frontier import hosts
from scraper.plugins.demo.pictures import draw_picture
from scraper.plugins.flower.pictures import handlers
from scraper.plugins.flower.pictures import store as pictures
from scraper.plugins.flower.reader import PostgresReader
from scraper.settings import Settings
from tests.acceptance.commands import commands, until
from tests.support.making import a_site, keep, rows
from tests.support.servers.flower import Flower

PNG = draw_picture("a")
SCRIPT = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
PATH = "/api/products/picture"


class PictureShop:
    """Answers each path with its misdeed, and remembers what was asked, with the headers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.robots = b""
        shop, ends = self, threading.Event()
        self._ends = ends

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                shop.asked.append((self.path, dict(self.headers.items())))
                name = self.path.strip("/").replace("-", "_").replace(".", "_")
                getattr(self, f"answer_{name}", self.answer_404)()

            def send(self, body: bytes, kind: str, status: int = 200, **headers: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                for header, value in headers.items():
                    self.send_header(header.replace("_", "-"), value)
                self.end_headers()
                self.wfile.write(body)

            def answer_404(self) -> None:
                self.send(b"nothing", "text/plain", 404)

            def answer_robots_txt(self) -> None:
                self.send(shop.robots, "text/plain")

            def answer_good_png(self) -> None:
                self.send(PNG, "text/html", Set_Cookie="a=1")

            def answer_slow_png(self) -> None:
                time.sleep(1.0)
                self.send(PNG, "image/png")

            def answer_svg(self) -> None:
                self.send(SCRIPT, "image/svg+xml")

            def answer_html(self) -> None:
                self.send(b"<!doctype html><script>alert(1)</script>", "image/png")

            def answer_after_the_picture(self) -> None:
                self.send(PNG + SCRIPT, "image/svg+xml")

            def answer_large(self) -> None:
                self.send(PNG + bytes(3_000_000), "image/png")

            def answer_bomb(self) -> None:
                packed = gzip.compress(PNG + bytes(200_000_000), 9)
                self.send(packed, "image/png", Content_Encoding="gzip")

            def answer_wide(self) -> None:
                self.send(PNG[:16] + b"\xff" * 8 + PNG[24:], "image/png")

            def answer_inside(self) -> None:
                self.send(b"", "text/plain", 302, Location="http://169.254.169.254/latest/")

            def answer_loop(self) -> None:
                self.send(b"", "text/plain", 302, Location="/loop")

            def answer_away(self) -> None:
                self.send(b"", "text/plain", 302, Location="/good.png")

            def answer_busy(self) -> None:
                self.send(b"later", "text/plain", 503)

            def answer_endless(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "image/png")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(PNG[:20])
                while not ends.wait(0.2):
                    self.wfile.write(b"\0")

            def answer_silent(self) -> None:
                ends.wait(60)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def count(self, path: str) -> int:
        return sum(asked == path for asked, _ in self.asked)


@pytest.fixture
def picture_shop() -> Iterator[PictureShop]:
    shop = PictureShop()
    yield shop
    shop.close()


@pytest.fixture
def flower(environment: Settings, tmp_path: Path) -> Iterator[Flower]:
    with commands(tmp_path / "logs") as run:
        yield Flower(run, environment)


Put = Callable[..., None]


@pytest.fixture
def put(engine: sa.Engine, picture_shop: PictureShop) -> Put:
    """Stores products by id with their pictures' paths, of a site with more keys."""

    def put(name: str = "shop", /, *, paths: dict[str, str], **more: object) -> None:
        keys: dict[str, object] = {"start": f"{picture_shop.url}/", "allow_private": True}
        data: dict[str, dict[str, object]] = {
            id_: {"name": id_, "image": f"{picture_shop.url}{p}"} for id_, p in paths.items()
        }
        keep(engine, a_site(name, **(keys | {"rate": "50/s"} | more)), data)

    return put


def ask(flower: Flower, product: str, site: str = "shop", **more: object) -> httpx.Response:
    return flower.get(PATH, params={"site": site, "id": product}, **more)


def test_a_picture_is_fetched_once_and_can_be_nothing_else(
    flower: Flower, put: Put, picture_shop: PictureShop, engine: sa.Engine, environment: Settings
) -> None:
    put(paths={"7": "/good.png", "8": "/away"}, headers={"X-Secret": "s3cret"}, cookies="keep")
    assert flower.json("/api/products?site=shop&id=7")["product"]["pictured"] is True
    assert picture_shop.asked == [], "only a look at the picture asks the shop"
    for _ in range(3):
        answer = ask(flower, "7")
        assert (answer.status_code, answer.content) == (200, PNG)
    headers = answer.headers
    assert headers["Content-Type"] == "image/png", "whatever the shop called it"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "private" in headers["Cache-Control"]
    assert picture_shop.count("/good.png") == 1
    assert picture_shop.asked[0][0] == "/robots.txt"
    assert ask(flower, "8").content == PNG, "a redirect within the shop is followed"
    assert not any("X-Secret" in sent or "Cookie" in sent for _, sent in picture_shop.asked)
    # Another Flower, or this one after a restart, has it from PostgreSQL.
    with commands(environment.home_dir / "more") as run:
        assert ask(Flower(run, environment), "7").content == PNG
    assert picture_shop.count("/good.png") == 2, "once, and once after the redirect"
    assert rows(engine, "SELECT count(*), sum(size) FROM product_pictures") == [(2, 2 * len(PNG))]


def test_looks_at_the_same_moment_share_a_request(
    flower: Flower, put: Put, picture_shop: PictureShop
) -> None:
    put(paths={"7": "/slow.png"})
    answers: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(flower, "7"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [answer.content for answer in answers] == [PNG] * 6
    assert picture_shop.count("/slow.png") == 1


def test_a_look_from_before_the_picture_was_kept_does_not_ask_again(
    put: Put, engine: sa.Engine, environment: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look found no picture, and goes on when the request for it has ended."""
    asked: list[pictures.ProductPicture] = []

    class Shop:
        async def fetch(self, wanted: pictures.ProductPicture, _: object) -> pictures.Stored:
            asked.append(wanted)
            return pictures.Stored("image/png", PNG, None)

    put(paths={"7": "/good.png"})
    monkeypatch.setattr(handlers, "PictureFetcher", lambda _: Shop())
    with engine.connect() as connection:
        wanted = pictures.look_up(connection, "shop", "7")
    reader = PostgresReader(environment)

    async def look_twice() -> list[pictures.Stored]:
        shown = handlers.Pictures(reader)
        return [await shown.fetch(wanted) for _ in range(2)]

    assert [found.body for found in asyncio.run(look_twice())] == [PNG, PNG]
    assert asked == [wanted]
    reader.engine.dispose()


MISDEEDS = {
    "svg": "not a PNG",
    "html": "not a PNG",
    "large": "2000000",
    "bomb": "2000000",
    "wide": "pixels",
    "inside": "metadata",
    "loop": "redirect",
    "busy": "503",
    "missing": "404",
    "endless": "timeout|within",
    "silent": "timeout|within",
}


@pytest.mark.slow
def test_hostile_answers_are_not_pictures_and_are_not_asked_again(
    flower: Flower, put: Put, picture_shop: PictureShop, engine: sa.Engine
) -> None:
    put(paths={name: f"/{name}" for name in MISDEEDS}, limits={})
    answers: dict[str, httpx.Response] = {}

    def look(name: str) -> None:
        answers[name] = ask(flower, name, timeout=90)

    for _ in range(2):
        threads = [threading.Thread(target=look, args=(name,)) for name in MISDEEDS]
        for thread in threads:
            thread.start()
        # The tab answers while shops do not.
        assert flower.get("/api/products?site=shop").status_code == 200
        for thread in threads:
            thread.join(120)
        # The first round may have no slot for the last ones, while slow answers have them.
        for name in [n for n, answer in answers.items() if answer.status_code == 503]:
            look(name)
        for name, sign in MISDEEDS.items():
            answer = answers[name]
            assert answer.status_code == 404, (name, answer.text)
            assert answer.headers["Content-Type"].startswith("application/json")
            assert any(part in answer.json()["error"] for part in sign.split("|")), answer.text
    assert picture_shop.count("/svg") == picture_shop.count("/bomb") == 1
    assert picture_shop.count("/loop") <= 4
    assert rows(engine, "SELECT count(body) FROM product_pictures") == [(0,)]
    # The tab does not ask for what is known to be none, nor do browsers report it as an error.
    assert not flower.json("/api/products?site=shop&id=svg")["product"]["pictured"]
    seen = ask(flower, "svg", headers={"Sec-Fetch-Dest": "image"})
    assert (seen.status_code, seen.content) == (204, b"")
    # After an hour the shop is asked again.
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE product_pictures SET fetched_at = now() - interval '61 minutes'")
        )
    time.sleep(1.1)
    look("svg")
    assert answers["svg"].status_code == 404 and picture_shop.count("/svg") == 2


def test_what_follows_a_picture_is_never_read_as_text(
    flower: Flower, put: Put, picture_shop: PictureShop
) -> None:
    put(paths={"7": "/after-the-picture"})
    answer = ask(flower, "7")
    assert answer.headers["Content-Type"] == "image/png"
    assert answer.headers["Content-Security-Policy"].endswith("sandbox")


def test_a_request_that_the_rules_forbid_does_not_leave(
    flower: Flower, put: Put, picture_shop: PictureShop, engine: sa.Engine
) -> None:
    picture = {"7": "/good.png"}
    put("inner", paths=picture, allow_private=False)
    put("proxied", paths=picture, proxy="residential")
    put("stopped", paths=picture)
    put("polite", paths=picture)
    assert "loopback" in ask(flower, "7", "inner").json()["error"]
    overrides.set_paused(engine, "stopped", paused=True)
    with engine.begin() as connection:
        hosts.set_paused(connection, picture_shop.url.removeprefix("http://"), paused=True)
    assert "proxy" in ask(flower, "7", "proxied").json()["error"]
    paused = ask(flower, "7", "stopped")
    assert paused.status_code == 409 and "paused" in paused.json()["error"]
    held = ask(flower, "7", "polite")
    assert held.status_code == 503 and held.headers["Retry-After"], "an operator paused the host"
    assert picture_shop.asked == []
    with engine.begin() as connection:
        hosts.set_paused(connection, picture_shop.url.removeprefix("http://"), paused=False)
    picture_shop.robots = b"User-agent: *\nDisallow: /good\n"
    until(lambda: ask(flower, "7", "polite").status_code == 404, 60)
    assert "robots.txt" in ask(flower, "7", "polite").json()["error"]
    assert [path for path, _ in picture_shop.asked] == ["/robots.txt"]


def test_only_products_and_only_this_site_may_ask(
    flower: Flower, put: Put, picture_shop: PictureShop
) -> None:
    put(paths={"7": "/good.png", "none": ""})
    url = f"{picture_shop.url}/good.png"
    for query in ("site=shop", f"site=shop&url={url}", "id=7", "", f"site=shop&id={url}"):
        assert flower.get(f"{PATH}?{query}").status_code in (400, 404), query
    for name, value in (("site", "../shop"), ("site", "x" * 5000), ("id", "70"), ("id", "' OR 1")):
        answer = flower.get(PATH, params={"site": "shop", "id": "7"} | {name: value})
        assert answer.status_code in (400, 404), (name, value, answer.text)
    for origin in ("cross-site", "same-site"):
        answer = ask(flower, "7", headers={"Sec-Fetch-Site": origin})
        assert answer.status_code == 403
    assert ask(flower, "7", auth=None).status_code == 401
    assert flower.post(f"{PATH}?site=shop&id=7").status_code == 405
    assert picture_shop.asked == []


def test_the_newest_pictures_are_kept_within_bounds(
    put: Put, engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(paths={str(i): f"/{i}" for i in range(8)})
    monkeypatch.setattr(pictures, "KEPT_MAX", 5)
    monkeypatch.setattr(pictures, "KEPT_MAX_BYTES", 350)

    def keep_one(product: str, size: int) -> None:
        with engine.begin() as connection:
            wanted = pictures.look_up(connection, "shop", product)
            pictures.store(connection, wanted, pictures.Stored("image/png", bytes(size), None))

    def kept() -> list[object]:
        found = rows(engine, "SELECT size FROM product_pictures ORDER BY fetched_at DESC")
        return [size for (size,) in found]

    for product in range(7):
        keep_one(str(product), product + 1)
    assert kept() == [7, 6, 5, 4, 3]
    keep_one("7", 340)
    assert kept() == [340, 7], "7 and 340 bytes are within 350"
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE product_pictures SET fetched_at = now() - interval '31 days'")
        )
        assert pictures.look_up(connection, "shop", "7").kept is None
    keep_one("1", 5)
    assert kept() == [5]
    with engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM products"))
        connection.execute(sa.text("TRUNCATE sites CASCADE"))
    assert kept() == []


def test_the_address_comes_from_the_products_own_fields() -> None:
    page = "https://shop.example/p/1"
    for data, url in (
        ({"image": "/a.png"}, "https://shop.example/a.png"),
        ({"images": ["//cdn.example/b.png", "c"]}, "https://cdn.example/b.png"),
        ({"image": "", "thumbnail": "t.png"}, "https://shop.example/p/t.png"),
        ({"image": "javascript:alert(1)"}, None),
        ({"image": "data:image/png;base64,AA"}, None),
        ({"image": "file:///etc/passwd"}, None),
        ({"image": 7, "images": [{}], "photo": None}, None),
        ({"image": "http://[broken"}, None),
        ({"image": "https://shop.example/" + "a" * 3000}, None),
        ({"note": "https://shop.example/a.png"}, None),
    ):
        assert pictures.find_address(data, page) == url, data
