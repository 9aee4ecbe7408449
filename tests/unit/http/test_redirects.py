"""A redirect chain: targets, circles, cookies, and headers that stay behind. Without a network."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.errors import FetchError
from scraper.http.cookies import COOKIES_MAX
from scraper.http.redirects import Chain, host_of, next_url

HERE = httpx.URL("http://shop.example:8080/a/b?c=d")
PIECES = [
    b"http:",
    b"https:",
    b"file:",
    b"//",
    b"/",
    b"\\",
    b"@",
    b":",
    b"[",
    b"]",
    b"::1",
    b"%zz",
    b"\xff",
    b"\xc3\xa9",
]
PIECES += [
    b"?",
    b"#",
    b"..",
    b"xn--a",
    b"a" * 70,
    b" ",
    b"\x7f",
    b"\x01",
    b"99999",
    b"80",
    b"\xe2\x80\x8b",
    b"0x7f.1",
]
locations = st.one_of(
    st.binary(max_size=60), st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join)
)


def chain(first: str = "http://shop.example/x", **headers: str) -> tuple[Chain, httpx.URL]:
    url = httpx.URL(first)
    return Chain(url, list(headers.items()), 5), url


@given(locations, st.lists(st.binary(max_size=80), max_size=3))
def test_any_bytes_give_a_web_url_or_a_fetch_error(location: bytes, cookies: list[bytes]) -> None:
    hops = Chain(HERE, [("Accept", "*/*")], 5)
    try:
        url = hops.follow(HERE, 302, location, cookies)
    except FetchError:
        return
    assert (
        url.scheme in ("http", "https") and url.raw_host and not url.fragment and not url.userinfo
    )
    assert host_of(url) == host_of(url).lower()
    assert not any(char in value for _, value in hops.headers_for(url) for char in "\r\n\0")


@pytest.mark.parametrize(
    ("location", "url"),
    [
        (b"//Other.Example/x", "http://other.example/x"),
        (b"https://user:pw@shop.example/#top", "https://shop.example/"),
        (b"http://m\xc3\xbcnchen.example/", "http://xn--mnchen-3ya.example/"),
        (b"http://xn--ls8h.example/", "http://xn--ls8h.example/"),
        (b"?page=2", "http://shop.example:8080/a/b?page=2"),
        (b"http://shop.example:80/", "http://shop.example/"),
    ],
)
def test_targets(location: bytes, url: str) -> None:
    assert str(next_url(HERE, location)) == url


def test_cookies_go_back_to_their_host_alone_and_secure_ones_over_tls() -> None:
    hops, url = chain()
    set_cookies = [
        b"a=1; Path=/",
        b"s=2; Secure",
        b"gone=3",
        b"gone=; Max-Age=0",
        b"m=4; Max-Age=\xb2; Path=/z",
        b"bad",
        b"n\x00l=1",
        b"e\xe9=1",
    ]
    there = hops.follow(url, 302, b"https://shop.example/y", set_cookies)
    assert dict(hops.headers_for(there))["Cookie"] == "a=1; s=2"
    assert dict(hops.headers_for(httpx.URL("http://shop.example/")))["Cookie"] == "a=1"
    assert "Cookie" not in dict(hops.headers_for(httpx.URL("https://www.shop.example/")))


@pytest.mark.parametrize("host", ["xn--mnchen-3ya.example", "xn--ls8h.example"])
def test_a_name_beyond_ascii_gets_its_cookies_back(host: str) -> None:
    hops, url = chain(f"http://{host}/x")
    there = hops.follow(url, 302, b"/y", [b"a=1", b"b=2; Domain=%b" % host.encode()])
    assert dict(hops.headers_for(there))["Cookie"] == "a=1; b=2"


def test_cookies_are_bounded() -> None:
    hops, url = chain()
    hops.follow(
        url, 302, b"/y", [b"c%d=1" % number for number in range(500)] + [b"big=" + b"x" * 5000]
    )
    assert dict(hops.headers_for(url))["Cookie"].count("=") == COOKIES_MAX


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [
        ("http://shop.example/", "http://shop.example/y", True),
        ("http://shop.example/", "https://shop.example/", True),
        ("https://shop.example/", "http://shop.example/", False),
        ("https://shop.example/", "https://shop.example:8443/", False),
        ("https://shop.example/", "https://www.shop.example/", False),
    ],
)
def test_secrets_stay_with_the_origin(first: str, then: str, kept: bool) -> None:
    hops, _ = chain(first, Authorization="Bearer x", Accept="*/*")
    headers = dict(hops.headers_for(httpx.URL(then)))
    assert headers["Accept"] == "*/*"
    assert ("Authorization" in headers) is kept


def test_a_circle_is_one_only_with_the_same_cookies() -> None:
    hops, url = chain()
    again = hops.follow(url, 302, b"/x", [b"a=1"])
    with pytest.raises(FetchError, match="circle"):
        hops.follow(again, 302, b"/x", [b"a=1"])
