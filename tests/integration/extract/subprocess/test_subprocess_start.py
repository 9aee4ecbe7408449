"""The subprocess that reads slow pages: what it imports, and when."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from scraper.domain import Fetched, Kind
from scraper.extract.bounds import ISOLATED
from scraper.extract.subprocess.wire import ReadRequest, load_result, read_frame, write_request
from scraper.sites.loader import load_text

SITE = """
name: shop
start: https://shop.example/
listing: {products: a}
product:
  id: {url: "/p/(\\\\d+)"}
  fields:
    title: {css: h1, required: true}
    price: {auto: price}
    brand: {jsonld: brand.name}
    stock: {xpath: //b, type: int}
"""
BODY = b"<h1>A lamp</h1><b>3</b><p class=price>12.50 EUR</p>"


def test_nothing_is_imported_on_the_time_of_a_page(tmp_path: Path) -> None:
    ours, other = socket.socketpair()
    log = tmp_path / "imports"
    program = [sys.executable, "-v", "-m", "scraper.extract.subprocess"]
    page = Fetched("https://shop.example/p/1", 200, {"content-type": "text/html"}, BODY)
    request = ReadRequest(
        load_text(SITE, "shop.yaml"), None, (), Kind.PRODUCT, page, page.url, 1, None, ISOLATED
    )
    with ours, log.open("wb") as stderr:
        with other:
            process = subprocess.Popen(
                [*program, str(other.fileno())], stderr=stderr, pass_fds=[other.fileno()]
            )
        ours.settimeout(60)
        assert ours.recv(1) == b"\x00"
        before = find_imported(log)
        write_request(ours, request)
        frame = read_frame(ours)
        assert frame is not None
        result = load_result(frame)
        after = find_imported(log)
    assert process.wait(60) == 0
    assert result.extracted is not None and result.extracted.products[0].data["stock"] == 3
    assert before and after == before
    assert not {name for name in before if name.partition(".")[0] in ("sqlalchemy", "redis")}


def find_imported(log: Path) -> set[str]:
    lines = log.read_text(errors="replace").splitlines()
    return {line.split("'")[1] for line in lines if line.startswith("import '")}
