"""What a robots.txt means: parsing and decisions, without a network."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from scraper.politeness.robots import (
    NO_ANSWER,
    ROBOTS_MAX_BYTES,
    WILDCARDS_MAX,
    RobotsRules,
    Unavailable,
    decoded,
    origin_of,
    product_token,
    robots_url,
    rules_from,
)

AGENT = "Mozilla/5.0 (compatible; Foobot/1.0; +https://foo.example/bot)"


def rules(body: str | bytes, agent: str = AGENT, status: int = 200) -> RobotsRules:
    found = rules_from(status, body.encode() if isinstance(body, str) else body, agent)
    assert isinstance(found, RobotsRules)
    return found


@pytest.mark.parametrize(
    ("agent", "token"),
    [
        (AGENT, "foobot"),
        ("Foobot/1.0 (+https://foo.example)", "foobot"),
        ("my-price_bot", "my-price_bot"),
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101", "mozilla"),
        ("", "*"),
        ("42", "*"),
    ],
)
def test_product_tokens(agent: str, token: str) -> None:
    assert product_token(agent) == token


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Shop.Example/a?b#c", "https://shop.example"),
        ("https://shop.example:443/", "https://shop.example"),
        ("http://shop.example:443/", "http://shop.example:443"),
        ("HTTP://user:pw@shop.example:8080/x", "http://shop.example:8080"),
        ("http://[::1]:81/x", "http://[::1]:81"),
    ],
)
def test_origins(url: str, origin: str) -> None:
    assert origin_of(url) == origin
    assert robots_url(url) == f"{origin}/robots.txt"


def test_the_group_of_our_own_name_wins_over_the_star() -> None:
    text = "User-agent: *\nDisallow: /\n\nUser-agent: FOOBOT\nDisallow: /cart\nAllow: /cart/public\nCrawl-delay: 1.5\n"
    ours, others = rules(text), rules(text, "Otherbot/1.0")
    assert (
        ours.allowed("https://h/x")
        and not ours.allowed("https://h/cart/1")
        and ours.allowed("https://h/cart/public")
    )
    assert ours.crawl_delay_s == 1.5
    assert not others.allowed("https://h/x") and others.crawl_delay_s is None
    assert others.allowed("https://h/robots.txt")


def test_wildcards_ends_and_escapes() -> None:
    found = rules("User-agent: *\nDisallow: /*.pdf$\nDisallow: /*?sort=\nDisallow: /caf%C3%A9\n")
    assert not found.allowed("http://h/a/b.pdf") and found.allowed("http://h/a/b.pdfx")
    assert not found.allowed("http://h/list?sort=price") and found.allowed("http://h/list?page=2")
    assert not found.allowed("http://h/caf%c3%a9/1")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<!DOCTYPE html><html><body><h1>Not found</h1>User-agent</body></html>",
        b"\x00\x00\x00",
        bytes(range(256)) * 50,
        b"User-agent: *\nDisallow:\n",
    ],
)
def test_a_file_without_rules_allows_everything(body: bytes) -> None:
    assert rules(body).allowed("https://h/x")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1", "cp1250"])
def test_encodings(encoding: str) -> None:
    body = "User-agent: *\nDisallow: /prive\n# caché\n".encode(encoding)
    assert not rules(body).allowed("https://h/prive")


def test_nul_and_line_ends() -> None:
    assert not rules(b"User-agent: *\r\nDis\0allow: /x\r\rCrawl-delay: 3").allowed("https://h/x")


@pytest.mark.parametrize(
    ("value", "delay_s"),
    [
        ("10", 10),
        ("0.5", 0.5),
        ("1e9", 300),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
    ],
)
def test_crawl_delays_are_bounded(value: str, delay_s: float | None) -> None:
    assert rules(f"User-agent: *\nCrawl-delay: {value}\n").crawl_delay_s == delay_s


def test_sitemaps_are_absolute_and_named_once() -> None:
    text = "Sitemap: https://h/a.xml\nsitemap: https://h/b.xml.gz\nSitemap: https://h/a.xml\nSitemap: javascript:x\n"
    assert rules(text).sitemaps == ["https://h/a.xml", "https://h/b.xml.gz"]


@pytest.mark.parametrize("status", [301, 304, 400, 401, 403, 404, 410, 451])
def test_no_rules_there_means_all_is_allowed(status: int) -> None:
    assert rules("User-agent: *\nDisallow: /", status=status).allowed("https://h/x")


@pytest.mark.parametrize("status", [429, 500, 503, 599, 999, NO_ANSWER, 100])
def test_a_failing_server_disallows_everything_for_now(status: int) -> None:
    assert isinstance(rules_from(status, b"", AGENT), Unavailable)


def test_the_reason_is_kept() -> None:
    assert rules_from(NO_ANSWER, b"no connection", AGENT) == Unavailable("no connection")
    assert rules_from(503, b"", AGENT) == Unavailable("the server answered 503")


def test_a_line_that_the_limit_cuts_does_not_count_as_a_rule() -> None:
    head = b"User-agent: *\nDisallow: /a\n"
    body = head + b"#" * (ROBOTS_MAX_BYTES - len(head) - 12) + b"\nDisallow: /tail"
    cut = body[:ROBOTS_MAX_BYTES]
    assert cut.endswith(b"Disallow: /")
    found = rules(cut)
    assert found.allowed("https://h/b") and not found.allowed("https://h/a")
    assert len(decoded(body * 3)) <= ROBOTS_MAX_BYTES


@given(st.binary(max_size=2000), st.text(max_size=50), st.text(max_size=50))
def test_nothing_in_a_robots_txt_raises(body: bytes, agent: str, path: str) -> None:
    found = rules_from(200, b"User-agent: *\nDisallow: /" + body, agent)
    assert isinstance(found, RobotsRules)
    assert found.allowed(f"https://h/{path}") in (True, False)


LINES = st.sampled_from(
    [
        "User-agent: *", "User-agent: foobot", "user agent foo", "USERAGENT:Foo*", "User-agent: **",
        "User-agent: other", "User-agent :foo # foobot", "User-agent:", "User-agents: foobot",
        "# User-agent: foobot", "Disallow: /a", "Disallow: /", "Allow: /a/b", "Crawl-delay: 3",
        "Sitemap: https://h/a.xml", "Nonsense: 1", "nonsense", "",
    ]
)  # fmt: skip


@given(st.lists(LINES, max_size=12), st.sampled_from(["foobot", "foo", "bar", "*"]))
def test_the_rules_are_those_of_the_whole_file(lines: list[str], token: str) -> None:
    text = "\n".join(lines)
    whole, own = Protego.parse(text), RobotsRules(text, token)
    for url in ("https://h/a", "https://h/a/b", "https://h/c"):
        assert own.allowed(url) == whole.can_fetch(url, token)
    assert own.crawl_delay_s == whole.crawl_delay(token)
    assert own.sitemaps == list(dict.fromkeys(whole.sitemaps))


@pytest.mark.parametrize("name", ["other{}", "foo{}", "foo{stars}"])
def test_a_rule_is_not_stored_for_thousands_of_names(name: str) -> None:
    names = [name.format(n, stars="*" * n) for n in range(1, 700)]
    text = "".join(f"User-agent: {name}\n" for name in [*names, "*"])
    text += "".join(f"Disallow: /{n}\n" for n in range(1_000))
    before = sys.getallocatedblocks()
    found = rules(text)
    assert sys.getallocatedblocks() - before < 50_000
    assert not found.allowed("https://h/7") and found.allowed("https://h/x")


def test_a_file_of_wildcards_disallows_everything() -> None:
    line = "Disallow: /*x*y\n"
    assert rules("User-agent: *\n" + line * (WILDCARDS_MAX // 2 - 1)).allowed("https://h/a")
    many = rules_from(200, ("User-agent: *\n" + line * (WILDCARDS_MAX // 2)).encode(), AGENT)
    assert many == Unavailable("it has more than 5,000 wildcards")
