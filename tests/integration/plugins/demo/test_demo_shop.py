"""The sample shop as a process: what a crawler meets, what a test may ask it, how it ends."""

from __future__ import annotations

import gzip
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from lxml import etree
from parsel import Selector

SIZE = 120
# A page that hangs never answers.
HANGS = httpx.Timeout(60, read=0.2)


class Served:
    def __init__(self, *options: str) -> None:
        argv = [
            sys.executable,
            "-m",
            "scraper.plugins.demo",
            "--port",
            "0",
            "--products",
            str(SIZE),
            *options,
        ]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:")
        self.url = line.split()[-1]
        self.client = httpx.Client(base_url=self.url, timeout=180)

    def stop(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.communicate()


@pytest.fixture(scope="module")
def _served() -> Iterator[Served]:
    served = Served()
    yield served
    served.stop()


@pytest.fixture
def shop(_served: Served) -> httpx.Client:
    """The shop as it is at its first start."""
    client = _served.client
    options = {"latency_ms": 0, "fail_share": 0, "hang_share": 0, "gzip": False, "outage": None}
    client.post("/_control/options", json=options).raise_for_status()
    client.get("/_control/visit?n=1")
    client.delete("/_control/log")
    return client


def wait_for_log(shop: httpx.Client, entries: int) -> list[tuple[float, str, int]]:
    """The log, once the shop has noted this many requests: a client that gives up does not wait for
    that."""
    while len(log := shop.get("/_control/log").json()) < entries:
        time.sleep(0.01)
    return log  # type: ignore[no-any-return]


def truth(shop: httpx.Client) -> list[dict[str, object]]:
    records: list[dict[str, object]] = shop.get("/_control/truth").json()
    return records


def links(response: httpx.Response, css: str) -> list[str]:
    found = Selector(response.text).css(css).xpath("@href").getall()
    return [urljoin(str(response.url), href) for href in found]


def test_listings_lead_to_every_product_once_cleaned(shop: httpx.Client) -> None:
    spelled: set[str] = set()
    url: str | None = "/all?page=1"
    visited = 0
    while url:
        response = shop.get(url)
        spelled.update(links(response, "a.product-link"))
        following = links(response, "a.next")
        url = following[0] if following else None
        visited += 1
    assert f"of {visited}<" in response.text
    for category in links(response, "nav.menu a"):
        spelled.update(links(shop.get(category), "a.product-link"))
    paths = {urlsplit(one).path for one in spelled}
    assert len(spelled) > len(paths), "one product, many spellings"
    finals, statuses = set(), []
    for path in paths:
        answer = shop.get(path, follow_redirects=True)
        statuses.append(answer.status_code)
        if answer.status_code == 200:
            finals.add(str(answer.url))
    assert finals == {record["url"] for record in truth(shop)}
    assert statuses.count(200) == SIZE and sorted({*statuses} - {200}) == [404, 410]


def test_a_renamed_product_redirects(shop: httpx.Client) -> None:
    record = next(record for record in truth(shop) if record["id"] == str(1001 + 13))
    answer = shop.get(f"/p/{record['id']}-something-else")
    assert answer.status_code == 301
    assert urljoin(str(shop.base_url), answer.headers["location"]) == record["url"]


def test_sitemaps_and_robots(shop: httpx.Client) -> None:
    robots = shop.get("/robots.txt").text
    assert (
        "Disallow: /basket\nDisallow: /search\n" in robots and "crawl-delay" not in robots.lower()
    )
    index = re.findall(r"Sitemap: (\S+)", robots)[0]
    children = etree.fromstring(shop.get(index).content).xpath("//*[local-name()='loc']/text()")
    found = [
        url
        for child in children
        for url in etree.fromstring(gzip.decompress(shop.get(child).content)).xpath(
            "//*[local-name()='loc']/text()"
        )
    ]
    assert {url for url in found if "/p/" in url} == {record["url"] for record in truth(shop)}


def test_the_next_visit_changes_prices(shop: httpx.Client) -> None:
    before = {record["id"]: record["price"] for record in truth(shop)}
    tag = shop.get("/p/1003-").headers.get("etag")
    assert shop.post("/_visit").json() == {"visit": 2}
    after = {record["id"]: record["price"] for record in truth(shop)}
    assert 0 < sum(after.get(number, price) != price for number, price in before.items()) < SIZE / 3
    assert after.keys() != before.keys() and tag is None
    assert shop.get("/_control/visit?n=0").status_code == 400


def test_validators(shop: httpx.Client) -> None:
    url = str(truth(shop)[0]["url"])
    first = shop.get(url)
    again = shop.get(url, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_head_and_gzip(shop: httpx.Client) -> None:
    url = str(truth(shop)[0]["url"])
    plain = shop.get(url)
    head = shop.head(url)
    assert head.headers["content-length"] == str(len(plain.content)) and not head.content
    shop.post("/_control/options", json={"gzip": True})
    packed = shop.get(url)
    assert packed.headers["content-encoding"] == "gzip" and packed.content == plain.content
    assert "content-encoding" not in shop.get(url, headers={"Accept-Encoding": "identity"}).headers


def test_failures_pass_and_are_logged(shop: httpx.Client) -> None:
    shop.post("/_control/options", json={"fail_share": 0.5})
    statuses = []
    for record in truth(shop)[:30]:
        for _ in range(3):
            try:
                statuses.append(shop.get(str(record["url"])).status_code)
            except httpx.RemoteProtocolError:
                statuses.append(0)
            except httpx.ReadError:
                statuses.append(0)
            if statuses[-1] == 200:
                break
        assert statuses[-1] == 200
    assert {200, 500, 503, 0} == set(statuses)
    assert [status for _, _, status in shop.get("/_control/log").json()] == statuses
    assert sum(shop.get("/_control/log?counts").json().values()) == len(statuses)


def test_a_hanging_page_answers_the_second_time(shop: httpx.Client) -> None:
    shop.post("/_control/options", json={"hang_share": 1})
    url = str(truth(shop)[0]["url"])
    with pytest.raises(httpx.ReadTimeout):
        shop.get(url, timeout=HANGS)
    wait_for_log(shop, 1)
    assert shop.get(url).status_code == 200


@pytest.mark.parametrize(
    ("outage", "status"), [("500", 500), ("503", 503), ("reset", 0), ("hang", 0)]
)
def test_an_outage_hits_every_page_and_ends(shop: httpx.Client, outage: str, status: int) -> None:
    paths = [
        "/",
        "/all?page=1",
        "/robots.txt",
        "/sitemap.xml",
        urlsplit(str(truth(shop)[0]["url"])).path,
    ]
    shop.post("/_control/options", json={"outage": outage}).raise_for_status()
    for path in paths:
        try:
            asked = shop.get(path, timeout=HANGS) if outage == "hang" else shop.get(path)
            assert asked.status_code == status
        except (httpx.ReadError, httpx.RemoteProtocolError, httpx.ReadTimeout):
            assert status == 0
    log = wait_for_log(shop, len(paths))
    assert [(target, found) for _, target, found in log] == [(p, status) for p in paths]
    assert shop.post("/_control/options", json={"outage": None}).json()["outage"] is None
    assert [shop.get(path).status_code for path in paths] == [200] * len(paths)


def test_wrong_options_are_refused(shop: httpx.Client) -> None:
    assert shop.post("/_control/options", json={"fail_share": 2}).status_code == 400
    assert shop.post("/_control/options", json={"nonsense": 2}).status_code == 400
    assert shop.post("/_control/options", json={"outage": "flood"}).status_code == 400
    assert shop.post("/_control/options", content="[1").status_code == 400
    assert shop.get("/_control/nonsense").status_code == 404


@pytest.mark.parametrize("latency_ms", [0, 5])
def test_pipelined_requests_are_answered_in_order(shop: httpx.Client, latency_ms: int) -> None:
    shop.post("/_control/options", json={"latency_ms": latency_ms})
    address = shop.base_url.host, shop.base_url.port
    targets = ["/robots.txt", "/nowhere", "/img/1.jpg", "/_control/visit"]
    with socket.create_connection(address, timeout=180) as raw:
        asked = "".join(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n" for target in targets)
        # In small pieces, so that no request arrives whole; the last one asks to close.
        data = asked[:-2].encode() + b"Connection: close\r\n\r\n"
        for start in range(0, len(data), 7):
            raw.sendall(data[start : start + 7])
        received = b"".join(iter(lambda: raw.recv(65536), b""))
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"200", b"404", b"200", b"200"]
    assert received.endswith(b'{"visit": 1}')


@pytest.mark.parametrize("data", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000])
def test_nonsense_is_refused(shop: httpx.Client, data: bytes) -> None:
    with socket.create_connection((shop.base_url.host, shop.base_url.port), timeout=180) as raw:
        raw.sendall(data)
        assert raw.recv(100).startswith((b"HTTP/1.1 400", b"HTTP/1.1 431"))


def test_sigterm_ends_it_at_once() -> None:
    served = Served("--hang-share", "1")
    with httpx.Client() as client, pytest.raises(httpx.ReadTimeout):
        client.get(str(truth(served.client)[0]["url"]), timeout=HANGS)
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=180) == -signal.SIGTERM
    served.stop()
