"""URLs that are not parsed are what they would have been."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.http.request import parsed
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
def test_an_unparsed_url_is_the_parsed_one(text: str) -> None:
    try:
        slow = httpx.URL(text)
    except httpx.InvalidURL:
        assert urls.split_plain_url(text) is None
        return
    fast = parsed(text)
    assert fast == slow
    assert (str(fast), fast.raw_path, fast.netloc, fast.host, fast.port, fast.scheme, fast.query, fast.fragment) == (
        str(slow), slow.raw_path, slow.netloc, slow.host, slow.port, slow.scheme, slow.query, slow.fragment
    )  # fmt: skip


@pytest.mark.parametrize(
    "text", ["http://shop.example/p/1-x", "https://shop.example:8443/a?b=c&d=e", "http://10.0.0.1/"]
)
def test_a_shops_urls_are_plain(text: str) -> None:
    assert urls.split_plain_url(text) is not None
    assert parsed(text) == httpx.URL(text)
    assert parsed(text).join("../x").host == httpx.URL(text).host
