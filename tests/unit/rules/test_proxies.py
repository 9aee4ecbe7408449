"""The list of proxies, the choice among them, and their quarantines, as properties."""

from __future__ import annotations

import random
from collections import Counter
from typing import get_args
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scraper.domain import ProxySignal
from scraper.http.cookies import CookieJar
from scraper.proxies.proxy_list import ProxyListError, parse_list
from scraper.rules import browsers, proxies
from scraper.rules.proxies import (
    FAULT_WAITS_S,
    FORGIVEN_AFTER_S,
    QUARANTINES_S,
    Proxy,
    ProxyChooser,
    ProxyStats,
    after_strike,
    answer_signal,
    fault_wait_s,
    score_proxy,
)
from scraper.sites.grammar.routes import ProxyUse

SECRETS = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=6, max_size=20)
HEALTHS = st.builds(
    ProxyStats,
    success=st.floats(0, 1),
    latency_s=st.floats(0, 60),
    free_at=st.sampled_from([0.0, 50.0, 150.0]),
)


def listed(count: int, options: str = "") -> list[Proxy]:
    return parse_list(
        "".join(f"http://u:p@10.0.0.{n}:8080 {options}\n" for n in range(count)), "list"
    )


def test_a_list_as_it_is_documented() -> None:
    text = """# bought in May
http://ann:pa%23ss@one.example:8080  class=residential region=eu weight=2   # the good one

https://two.example
socks5://three.example class=datacenter region=any
socks5h://bob@[::1]:9050 weight=0.5
"""
    one, two, three, four = parse_list(text, "list")
    assert (one.scheme, one.host, one.port, one.user, one.password) == (
        "http",
        "one.example",
        8080,
        "ann",
        "pa#ss",
    )
    assert (one.pool, one.region, one.weight) == ("residential", "eu", 2.0)
    assert (two.port, two.pool, two.region, two.weight, two.user) == (
        443,
        "datacenter",
        None,
        1.0,
        None,
    )
    assert (three.port, three.region, four.host, four.port, four.password) == (
        1080,
        None,
        "::1",
        9050,
        None,
    )
    assert one.id.startswith("residential-eu-") and two.id.startswith("datacenter-any-")
    assert len({one.id, two.id, three.id, four.id}) == 4


@given(SECRETS, SECRETS)
def test_only_the_id_is_ever_shown(user: str, password: str) -> None:
    assume(":" not in user)
    proxy = parse_list(
        f"http://{quote(user, safe='')}:{quote(password, safe='')}@hidden.example:81", "list"
    )[0]
    assert (proxy.user, proxy.password) == (user, password)
    rest = "id= scheme='http', pool='datacenter', region=None, weight=1.0)Proxy("
    for text in (repr(proxy), str(proxy), f"{proxy}"):
        assert "hidden" not in text and ":81" not in text
        assert not {user, password} & set(text.split("'")) and all(
            one in rest or one not in text for one in (user, password)
        )


def test_an_id_follows_from_host_port_and_user_alone() -> None:
    ids = [
        parse_list(line, "list")[0].id
        for line in ("http://u:p@h:1", "http://u:other@h:1 weight=3", "http://v:p@h:1")
    ]
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("ftp://hunter2@h:1", "the scheme must be"),
        ("hunter2:8080", "the scheme must be"),
        ("http://u:hunter2@h:99999", "not a URL"),
        ("http://u:hunter2@h:1/path", "not a proxy's URL"),
        ("http://u:hunter2@:1", "not a proxy's URL"),
        ("http://u:hunter2@h:1 class=mobile", "an unknown class"),
        ("http://u:hunter2@h:1 region=EU!", "not a region"),
        ("http://u:hunter2@h:1 weight=0", "weight must be"),
        ("http://u:hunter2@h:1 weight=hunter2", "weight must be"),
        ("http://u:hunter2@h:1 colour=hunter2", "only class=, region= and weight="),
        ("http://u:hunter2@h:1 class=datacenter class=residential", "is given twice"),
        ("http://u:hunter2%0d%0a@h:1", "a forbidden character"),
        ("socks5://u:hunter2" + "x" * 300 + "@h:1", "longer than SOCKS5 allows"),
    ],
)
def test_mistakes_are_reported_with_their_line_and_without_its_text(line: str, told: str) -> None:
    with pytest.raises(ProxyListError) as caught:
        parse_list(f"# first\n{line}\nhttp://good.example:1\n", "proxies.txt")
    (problem,) = caught.value.problems
    assert problem.startswith("proxies.txt:2: ") and told in problem
    assert "hunter2" not in problem


def test_every_mistake_is_reported_at_once() -> None:
    with pytest.raises(ProxyListError) as caught:
        parse_list("x\nhttp://h:1\nhttp://h:1\n", "l")
    assert [problem.split(": ")[0] for problem in caught.value.problems] == ["l:1", "l:3"]


@given(st.text(max_size=200))
def test_any_text_is_a_list_or_a_list_of_problems(text: str) -> None:
    try:
        found = parse_list(text, "list")
    except ProxyListError as error:
        assert all(problem.startswith("list:") for problem in error.problems)
    else:
        assert len({proxy.id for proxy in found}) == len(found)


@given(
    st.lists(HEALTHS, min_size=1, max_size=12),
    st.lists(HEALTHS, max_size=12),
    st.integers(),
    st.data(),
)
def test_what_rests_or_is_excluded_is_never_lent_and_all_else_may_be(
    at_host: list[ProxyStats], whole: list[ProxyStats], seed: int, data: st.DataObject
) -> None:
    pool = listed(len(at_host))
    here = {proxy.id: health for proxy, health in zip(pool, at_host, strict=True)}
    everywhere = {proxy.id: health for proxy, health in zip(pool, whole, strict=False)}
    now = 100.0
    free = {
        p.id for p in pool if max(h[p.id].free_at for h in (here, everywhere) if p.id in h) <= now
    }
    without = set(data.draw(st.lists(st.sampled_from([p.id for p in pool]))))
    chooser = ProxyChooser(pool, here, everywhere, now)
    assert {proxy.id for proxy in chooser.free} == free
    rng = random.Random(seed)
    drawn = {proxy.id if (proxy := chooser.draw(rng, without)) else None for _ in range(30)}
    assert drawn <= free - without if free - without else drawn == {None}


@given(st.builds(Proxy, st.just("x"), st.just("http"), st.just("h"), st.just(1), st.none(), st.none(),
                 weight=st.floats(0.01, 1000)), HEALTHS, st.floats(0, 60))  # fmt: skip
def test_a_score_is_never_zero_and_never_above_the_weight(
    proxy: Proxy, health: ProxyStats, fastest_s: float
) -> None:
    assert 0 < score_proxy(proxy, health, fastest_s) <= proxy.weight
    assert score_proxy(proxy, health, fastest_s) <= score_proxy(proxy, ProxyStats(), fastest_s)


def test_the_weighty_the_healthy_and_the_fast_are_lent_more_often() -> None:
    heavy, failing, slow, plain = parse_list(
        "http://a:1 weight=3\nhttp://b:1\nhttp://c:1\nhttp://d:1\n", "list"
    )
    known = {
        heavy.id: ProxyStats(latency_s=0.2),
        failing.id: ProxyStats(success=0.3, latency_s=0.2),
        slow.id: ProxyStats(latency_s=3.2),
        plain.id: ProxyStats(latency_s=0.2),
    }
    chooser, rng = ProxyChooser([heavy, failing, slow, plain], known, {}, 0.0), random.Random(1)
    drawn = Counter(proxy.id for _ in range(4000) if (proxy := chooser.draw(rng, ())))
    assert drawn[heavy.id] > 2 * drawn[plain.id] > 4 * drawn[slow.id] > 4 * drawn[failing.id] > 100


@given(st.integers(0, 50), st.floats(0, 1e7))
def test_quarantines_grow_with_each_strike_and_are_forgiven_with_time(
    strikes: int, free_for_s: float
) -> None:
    count, rests_s = after_strike(strikes, free_for_s)
    assert 1 <= count <= strikes + 1 and rests_s in QUARANTINES_S
    assert after_strike(strikes, free_for_s + FORGIVEN_AFTER_S)[0] <= count
    assert after_strike(strikes, FORGIVEN_AFTER_S * (strikes + 1))[1] == QUARANTINES_S[0]
    assert after_strike(strikes + 1, free_for_s)[1] >= rests_s


def test_strikes_in_a_row() -> None:
    strikes, rests = 0, []
    for _ in range(7):
        strikes, rests_s = after_strike(strikes, 1.0)
        rests.append(rests_s)
    assert tuple(rests) == (*QUARANTINES_S, QUARANTINES_S[-1], QUARANTINES_S[-1])


@given(st.integers(0, 10_000))
def test_a_page_that_only_meets_faults_of_proxies_waits_longer_and_longer(faults: int) -> None:
    assert (
        FAULT_WAITS_S[0]
        <= fault_wait_s(faults)
        <= fault_wait_s(faults + 1)
        <= FAULT_WAITS_S[-1]
        <= 300
    )


@pytest.mark.parametrize(
    ("status", "url", "line", "signal"),
    [
        (200, "http://h/", "http://p:1", ProxySignal.ANSWERED),
        (404, "http://h/", "http://p:1", ProxySignal.ANSWERED),
        (403, "https://h/", "socks5://p:1", ProxySignal.BLOCKED),
        (502, "http://h/", "http://p:1", ProxySignal.FAILED),
        (502, "https://h/", "http://p:1", ProxySignal.ANSWERED),
        (502, "http://h/", "socks5://p:1", ProxySignal.ANSWERED),
        (500, "http://h/", "http://p:1", ProxySignal.ANSWERED),
    ],
)
def test_what_an_answer_says_of_its_proxy(
    status: int, url: str, line: str, signal: ProxySignal
) -> None:
    assert answer_signal(status, {}, url, parse_list(line, "l")[0], blocked=status == 403) is signal


def test_a_host_that_asks_to_be_left_alone_does_not_mean_a_broken_proxy() -> None:
    signal = answer_signal(503, {"retry-after": "5"}, "http://h/", listed(1)[0], blocked=False)
    assert signal is ProxySignal.ANSWERED


# Browsers and cookies.


@given(st.text(), st.sampled_from([None, "de", "eu", "us", "xx", "de-by"]), st.booleans())
def test_a_browser_is_consistent_and_always_the_same(
    seed: str, region: str | None, secure: bool
) -> None:
    pairs = browsers.browser_headers(seed, region, "gzip, deflate", secure=secure)
    headers = {name.lower(): value for name, value in pairs}
    assert pairs == browsers.browser_headers(seed, region, "gzip, deflate", secure=secure)
    assert len(headers) == len(pairs) and headers["accept-encoding"] == "gzip, deflate"
    agent, chromium = headers["user-agent"], "Chrome/" in headers["user-agent"]
    assert ("sec-ch-ua" in headers) is (secure and chromium) and (
        "sec-fetch-mode" in headers
    ) is secure
    if "sec-ch-ua" in headers:
        version = agent.partition("Chrome/")[2].partition(".")[0]
        assert headers["sec-ch-ua"].count(f'v="{version}"') == 2
        assert ("Windows" in agent) == (headers["sec-ch-ua-platform"] == '"Windows"')
        assert ("Edg/" in agent) == ("Microsoft Edge" in headers["sec-ch-ua"])
    if region in ("de", "de-by"):
        assert headers["accept-language"].startswith("de-DE,de")


@pytest.mark.parametrize(
    ("version", "sent"),
    [
        (142, '"Chromium";v="142", "Google Chrome";v="142", "Not_A Brand";v="99"'),
        (150, '"Not;A=Brand";v="8", "Chromium";v="150", "Google Chrome";v="150"'),
        (156, '"Not:A-Brand";v="8", "Chromium";v="156", "Google Chrome";v="156"'),
    ],
)
def test_chromiums_brands_follow_from_its_version(version: int, sent: str) -> None:
    assert browsers.client_hint_brands(version, "Google Chrome") == sent


def test_many_proxies_are_several_browsers() -> None:
    agents = {
        dict(browsers.browser_headers(str(n), None, "", secure=True))["User-Agent"]
        for n in range(100)
    }
    assert len(agents) == len(browsers.BROWSERS)


def test_cookies_of_an_identity() -> None:
    clock = [1000.0]
    jar = CookieJar(lambda: clock[0])
    for line in (
        b"a=1; Max-Age=60", b"b=2; Domain=.shop.example; Path=/", b"c=3; Path=/cart", b"d=4; Secure",
        b"e=5; Domain=example", b"f=6; Domain=other.example", b"g=7; Expires=Thu, 01 Jan 1970 00:00:01 GMT",
        b"h=8; Expires=Thu, 01-Jan-2099 00:00:01 GMT", b"a=9; Max-Age=120",
    ):  # fmt: skip
        jar.store_set_cookie("www.shop.example", "/list/1", line)
    assert set(jar.cookie_header("www.shop.example", "/list/2", secure=True).split("; ")) == {
        "a=9",
        "b=2",
        "d=4",
        "h=8",
    }
    assert "d=4" not in jar.cookie_header("www.shop.example", "/list/2", secure=False)
    assert jar.cookie_header("www.shop.example", "/cart/x", secure=False) == "c=3; b=2"
    assert jar.cookie_header("m.shop.example", "/", secure=False) == "b=2"
    assert jar.cookie_header("shop.example.evil.example", "/", secure=False) == ""
    clock[0] += 121
    assert "a=9" not in jar.cookie_header("www.shop.example", "/list/2", secure=True)


@given(
    st.binary(max_size=300),
    st.from_regex(r"[a-z]{1,5}(\.[a-z]{1,5}){0,3}|\d+\.\d+\.\d+\.\d+", fullmatch=True),
)
def test_any_set_cookie_is_taken_or_left(line: bytes, host: str) -> None:
    jar = CookieJar()
    jar.store_set_cookie(host, "/", line)
    sent = jar.cookie_header(host, "/", secure=True)
    assert sent.isascii() and (not sent or sent.isprintable())


def test_the_pools_of_the_list_are_those_of_a_definition() -> None:
    assert set(get_args(ProxyUse.model_fields["pool"].annotation)) == {"none", *proxies.POOLS}


@pytest.mark.parametrize(
    ("host", "domain", "elsewhere"),
    [
        ("shop.co.uk", "co.uk", "other.co.uk"),
        ("shop.github.io", "github.io", "other.github.io"),
        ("a.myshopify.com", ".myshopify.com", "b.myshopify.com"),
        ("shop.de", "de", "other.de"),
        ("shop.localhost", "localhost", "localhost"),
        ("www.shop.de", "shop.com", "shop.com"),
    ],
)
def test_a_cookie_for_all_of_a_public_suffix_is_refused(
    host: str, domain: str, elsewhere: str
) -> None:
    jar = CookieJar()
    jar.store_set_cookie(host, "/", f"session=1; Domain={domain}".encode())
    for name in (host, elsewhere, domain.lstrip(".")):
        assert jar.cookie_header(name, "/", secure=True) == ""


def test_a_public_suffix_that_is_a_shop_keeps_its_cookies_to_itself() -> None:
    jar = CookieJar()
    jar.store_set_cookie("github.io", "/", b"session=1; Domain=github.io")
    assert jar.cookie_header("github.io", "/", secure=True) == "session=1"
    assert jar.cookie_header("shop.github.io", "/", secure=True) == ""


def test_a_domain_of_the_shop_is_shared_by_its_hosts() -> None:
    jar = CookieJar()
    jar.store_set_cookie("www.shop.co.uk", "/", b"session=1; Domain=shop.co.uk")
    assert jar.cookie_header("api.shop.co.uk", "/", secure=True) == "session=1"
