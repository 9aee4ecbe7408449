"""What browser workers decide without a browser: how many pages, which cookies, which program,
whose fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scraper.coordinator.dispatch import BROWSER_BATCH_PAGES, batch_pages_of
from scraper.domain import Fetched, Kind, Outcome
from scraper.errors import ConfigError
from scraper.extract import compile_site
from scraper.http.cookies import CookieJar
from scraper.http.policy import FetchPolicy
from scraper.http.transport.guard import PrivateAccess
from scraper.http.transport.tunnel import ProxyHopError, ProxySignal
from scraper.plugins.browser import chromium
from scraper.plugins.browser.faults import navigation_fault
from scraper.settings import Settings
from scraper.sites.definition import Site

LIMITS = FetchPolicy(
    user_agent="x", headers={}, private=PrivateAccess(), allowed=None, body_max_bytes=1, wire_max_bytes=1, redirects_max=1,
    connect_timeout_s=1, read_timeout_s=1, page_timeout_s=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("cores", "memory_mb", "pages"), [(2, 8000, 4), (1, 100, 1), (32, 64_000, 8), (8, 2000, 2)]
)
def test_pages_at_once_follow_from_the_machine(cores: int, memory_mb: float, pages: int) -> None:
    assert chromium.pages_at_once(Settings(), cores=cores, memory_mb=memory_mb) == pages
    assert chromium.pages_at_once(Settings(browser_pages=3), cores=cores, memory_mb=memory_mb) == 3


def test_batches_for_browsers_are_small() -> None:
    assert (
        batch_pages_of("browser.eu", Settings())
        == BROWSER_BATCH_PAGES
        < batch_pages_of("browsers", Settings())
    )


def test_cookies_go_to_a_browser_and_come_back() -> None:
    now = [1000.0]
    jar = CookieJar(lambda: now[0])
    jar.store_set_cookie("shop.example", "/a/b", b"who=me; Max-Age=60; Secure")
    jar.store_set_cookie("shop.example", "/", b"all=1; Domain=shop.example; Path=/")
    found = {str(cookie["name"]): cookie for cookie in jar.browser_cookies()}
    assert found["who"] | {"expires": 0} == {
        "name": "who", "value": "me", "domain": "shop.example", "path": "/a", "expires": 0, "secure": True,
    }  # fmt: skip
    assert found["all"]["domain"] == ".shop.example" and found["all"]["expires"] == -1
    other = CookieJar(lambda: now[0])
    for cookie in found.values():
        other.store_browser_cookie(str(cookie["domain"]), cookie)
    assert (
        other.cookie_header("shop.example", "/a/c", secure=True)
        == jar.cookie_header("shop.example", "/a/c", secure=True)
        != ""
    )
    now[0] = 2000.0
    assert [cookie["name"] for cookie in other.browser_cookies()] == ["all"]
    other.store_browser_cookie("shop.example", {"name": "bad", "value": "a\r\nb"})
    assert "bad" not in other.cookie_header("shop.example", "/", secure=True)


def test_a_program_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="SCRAPER_CHROMIUM: .* is not a program"):
        chromium.find_program(Settings(chromium=tmp_path / "none"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="apt install chromium"):
        chromium.find_program(Settings())
    (tmp_path / "google-chrome").write_text("#!/bin/sh\n")
    (tmp_path / "google-chrome").chmod(0o755)
    assert chromium.find_program(Settings()) == str(tmp_path / "google-chrome")


@pytest.mark.parametrize(("text", "outcome"), [
    ("net::ERR_CERT_AUTHORITY_INVALID", Outcome.TLS), ("net::ERR_SSL_PROTOCOL_ERROR", Outcome.TLS),
    ("net::ERR_CONNECTION_RESET", Outcome.UNREACHABLE), ("net::ERR_EMPTY_RESPONSE", Outcome.UNREACHABLE),
    ("net::ERR_TOO_MANY_REDIRECTS", Outcome.REDIRECT_LOOP), ("net::ERR_TIMED_OUT", Outcome.TIMEOUT),
    ("net::ERR_INVALID_HTTP_RESPONSE", Outcome.MALFORMED), ("Download is starting", Outcome.MALFORMED),
])  # fmt: skip
def test_navigation_errors_say_whose_fault(text: str, outcome: Outcome) -> None:
    error: Any = Exception(f"Page.goto: {text} at http://shop.example/")
    assert navigation_fault(error, {}, "http://shop.example/", LIMITS, None).outcome is outcome
    known = {"shop.example": ProxyHopError(ProxySignal.UNUSABLE, "proxy p1: no login")}
    found = navigation_fault(error, known, "http://shop.example/", LIMITS, None)
    assert found.outcome is Outcome.PROXY_FAILED and found.signal is ProxySignal.UNUSABLE


def test_fields_and_links_are_read_from_captured_answers() -> None:
    site = Site.model_validate({
        "name": "shop", "start": "http://shop.example/", "queue": "browser", "browser": {"responses": {"api": "/api"}},
        "listing": {"products": {"response": "api", "path": "items.url"}},
        "product": {"fields": {
            "price": {"response": "api", "path": "$.product.offers[0].price", "type": "decimal"},
            "tags": {"response": "api", "path": "product.tags", "many": True},
        }},
    })  # fmt: skip
    extractor = compile_site(site)
    api = (b"not json", b'{"items": [{"url": "/p/1"}, {"url": "/p/2"}]}')
    page = Fetched("http://shop.example/", 200, {}, b"<html></html>", captured={"api": api})
    links = extractor.extract(Kind.LISTING, page, page_url=page.url, depth=0).links
    assert [link.url for link in links] == ["http://shop.example/p/1", "http://shop.example/p/2"]
    product = b'{"product": {"offers": [{"price": 19.90}], "tags": ["a", "b"]}}'
    page = Fetched(
        "http://shop.example/p/1", 200, {}, b"<html></html>", captured={"api": (product,)}
    )
    data = extractor.extract(Kind.PRODUCT, page, page_url=page.url, depth=1).products[0].data
    assert str(data["price"]) == "19.90" and data["tags"] == ["a", "b"]
