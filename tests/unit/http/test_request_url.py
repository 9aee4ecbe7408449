"""A URL that is split for a request asks for what the parsed URL would."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.http.request import absolute_target_of, split_url, target_of
from scraper.rules import urls

hosts = st.from_regex(r"\A(?:[a-z0-9-]{1,8}\.){0,2}[a-z][a-z0-9-]{0,8}\Z") | st.ip_addresses(
    v=4
).map(str)
paths = st.from_regex(r"\A(?:/[A-Za-z0-9_.~%-]{0,6}){0,4}\Z")
queries = st.from_regex(r"\A(?:\?[A-Za-z0-9_.~=&%+-]{0,12})?\Z")
ports = st.just("") | st.integers(1, 65535).map(":{}".format)
texts = st.builds(
    "{}://{}{}{}{}".format, st.sampled_from(["http", "https"]), hosts, ports, paths, queries
)


@given(texts)
def test_a_split_url_is_the_parsed_one(text: str) -> None:
    try:
        slow = httpx.URL(text)
    except httpx.InvalidURL:
        assert urls.split_plain_url(text) is None
        return
    fast = split_url(text)
    origin, extensions = fast.origin, {"target": fast.target}
    request = httpx.Request("GET", origin, extensions=extensions)
    assert (target_of(request), origin.netloc, origin.raw_host, origin.port, origin.scheme) == (
        slow.raw_path, slow.netloc, slow.raw_host, slow.port, slow.scheme
    )  # fmt: skip
    assert (fast.raw_host, fast.path, fast.scheme) == (slow.raw_host, slow.path, slow.scheme)
    assert absolute_target_of(request) == str(slow.copy_with(raw_path=slow.raw_path)).encode()
    assert httpx.URL(fast.text) == slow


@pytest.mark.parametrize(
    "text", ["http://shop.example/p/1-x", "https://shop.example:8443/a?b=c&d=e", "http://10.0.0.1/"]
)
def test_a_shops_urls_are_plain(text: str) -> None:
    assert urls.split_plain_url(text) is not None
    fast = split_url(text)
    assert fast.origin.join("/") == fast.origin
    assert fast.origin.join(fast.target.decode()) == httpx.URL(text)


def test_a_plain_request_asks_for_its_own_url() -> None:
    request = httpx.Request("GET", "https://ann:secret@shop.example:8443/a b?c#d")
    assert target_of(request) == b"/a%20b?c"
    assert absolute_target_of(request) == b"https://shop.example:8443/a%20b?c"
