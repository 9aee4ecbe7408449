from __future__ import annotations

from urllib.parse import urljoin

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scraper.rules import urls
from scraper.rules.urls import (
    UrlRules,
    belongs_to,
    canonical,
    clean,
    fingerprint,
    host_of,
)

BASE = "https://shop.example/a/c/page.html"
FRAGMENTS = [
    "http",
    "https",
    "HTTP",
    ":",
    "/",
    "//",
    "..",
    ".",
    "%2e",
    "a",
    "B",
    "shop.example",
    "?",
    "&",
    "=",
    "#",
    ";",
    "%",
    "%30",
    "%25",
    "%2F",
    "%zz",
    "ü",
    "\\",
    "\t",
    "\n",
    "@",
    "[",
    "::1",
    "]",
    ":80",
    ":443",
    "utm_x=1",
    "+",
    " ",
    "~",
    "\ud800",
    "\0",
    "www.",
    "x.html",
    '"',
    "|",
    "1",
    "0x7f",
    "_",
    "-",
]
anything = st.one_of(
    st.text(max_size=60),
    st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=10).map(
        lambda parts: "http://a.example/" + "".join(parts)
    ),
    st.tuples(
        st.sampled_from(
            [
                "http://127.0.0.1",
                "https://1.2.3.256",
                "http://10.0.0.07",
                "https://shop.example",
                "http://9.9.9",
            ]
        ),
        st.sampled_from(
            ["", ":", ":80", ":443", ":0", ":8800", ":08", ":59999", ":65535", ":65536", ":8o"]
        ),
        st.lists(st.sampled_from(FRAGMENTS), max_size=6).map("".join),
    ).map(lambda parts: f"{parts[0]}{parts[1]}/{parts[2]}"),
)
nearly_plain = st.from_regex(
    r"https?://([a-z0-9-]{1,5}\.){0,3}[a-z0-9-]{1,4}(/[A-Za-z0-9._~/-]{0,14})?(\?[a-z_.~=&-]{0,14})?",
    fullmatch=True,
)
some_rules = st.sampled_from(
    [UrlRules(), UrlRules(strip_slash=True), UrlRules(strip=("a*",), keep=("utm_x",))]
)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("b.html", "https://shop.example/a/c/b.html"),
        ("../b.html?utm_source=x&id=7#top", "https://shop.example/a/b.html?id=7"),
        ("../../../../b", "https://shop.example/b"),
        ("/x//y/", "https://shop.example/x//y/"),
        ("//cdn.example/x", "https://cdn.example/x"),
        ("?page=2", "https://shop.example/a/c/page.html?page=2"),
        ("#top", "https://shop.example/a/c/page.html"),
        ("", "https://shop.example/a/c/page.html"),
        ("HTTP://Shop.Example:80/A/%7eb", "http://shop.example/A/%7eb"),
        ("https://shop.example:443", "https://shop.example/"),
        ("https://shop.example:8443/", "https://shop.example:8443/"),
        (" \n/a\tb \r\n", "https://shop.example/ab"),
        (r"\x\y?q=\z", "https://shop.example/x/y?q=%5Cz"),
        ("http:/shop.example/x", "http://shop.example/x"),
        ("https://GROẞE-maße.example/", "https://xn--groe-mae-syae.example/"),
        ("https://λόγος.example/", "https://xn--oxapnm1c.example/"),
        ("https://ｓｈｏｐ。example/", "https://shop.example/"),
        ("https://❤.example/", "https://xn--qei.example/"),
        ("https://bücher.example/ä?ö=ü", "https://xn--bcher-kva.example/%C3%A4?%C3%B6=%C3%BC"),
        ("https://shop.example./x", "https://shop.example/x"),
        ("https://[2001:DB8::1]:8080/", "https://[2001:db8::1]:8080/"),
        ("https://shop.example/a/./b/%2e%2e/c", "https://shop.example/a/c"),
        ("x?gclid=1&FBCLID=2&b=&_ga=3&a", "https://shop.example/a/c/x?b=&a"),
        ("x?utm_source=a", "https://shop.example/a/c/x"),
    ],
)
def test_a_link_is_cleaned_as_a_browser_reads_it(link: str, expected: str) -> None:
    assert clean(link, BASE) == expected


@pytest.mark.parametrize(
    "link",
    [
        "mailto:a@b.example",
        "javascript:void(0)",
        "tel:1",
        "data:text/html,x",
        "ftp://shop.example/",
        "file:///etc/passwd",
        "https://user:secret@shop.example/",
        "https://user@shop.example/",
        "https://a b/",
        "https://a..b/",
        "https://shop.example:99999/",
        "https://shop.example:0/",
        "https://[::1/",
        "https://shop.example/" + "x" * 2000,
        "https://" + "a" * 64 + ".example/",
        "https://%41.example/",
        "https://a<b.example/",
    ],
)
def test_what_no_browser_opens_as_a_page_is_none(link: str) -> None:
    assert clean(link, BASE) is None


def test_site_rules_strip_keep_and_trim() -> None:
    rules = UrlRules(strip=("sess*", "ref"), keep=("gclid",), strip_slash=True)
    assert (
        clean("/p/?sessionid=1&REF=a&gclid=b&id=2", BASE, rules)
        == "https://shop.example/p?gclid=b&id=2"
    )
    assert clean("/", BASE, rules) == "https://shop.example/"


def test_slashes_and_case_of_paths_name_different_pages() -> None:
    assert len({fingerprint(f"https://shop.example/{path}") for path in ("a", "a/", "A")}) == 3


def test_canonical_urls_compare_equal() -> None:
    assert canonical("https://shop.example/%7Ea?b=2&a=1") == canonical(
        "https://shop.example/~a?a=1&b=2"
    )
    assert fingerprint("https://shop.example/?b=%c3%bc&a=1") == fingerprint(
        "https://shop.example/?a=1&b=%C3%BC"
    )


def test_fingerprints_never_change() -> None:
    """They are stored: another value here means that every page of every site is new."""
    assert (
        str(fingerprint("https://shop.example/a?b=2&a=1")) == "e1d76502-0619-a331-a05b-aefb5bd9a685"
    )


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Shop.Example/x", "shop.example"),
        ("http://shop.example:80/", "shop.example"),
        ("http://shop.example:8080/", "shop.example:8080"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("nonsense", ""),
        ("http://[", ""),
    ],
)
def test_host_of(url: str, host: str) -> None:
    assert host_of(url) == host


@pytest.mark.parametrize(
    ("host", "hosts", "expected"),
    [
        ("shop.example", ["shop.example"], True),
        ("m.shop.example:8080", ["shop.example"], True),
        ("myshop.example", ["shop.example"], False),
        ("shop.example.evil.example", ["shop.example"], False),
        ("shop.example:8080", ["shop.example:8080"], True),
        ("shop.example:81", ["shop.example:8080"], False),
        ("shop.example", ["shop.example:8080"], False),
        ("[::1]:81", ["[::1]"], True),
        ("[::1]", ["[::1]"], True),
        ("shop.example", [], False),
        ("", ["shop.example"], False),
    ],
)
def test_belongs(host: str, hosts: list[str], expected: bool) -> None:
    assert belongs_to(host, hosts) is expected


@given(anything, st.one_of(st.none(), anything, st.just(BASE)))
@example("%%30a", BASE)
@example("0", "http://a//")
def test_clean_never_raises_and_is_idempotent(link: str, base: str | None) -> None:
    cleaned = clean(link, base)
    if cleaned is not None:
        assert cleaned.startswith(("http://", "https://"))
        assert cleaned.isascii()
        assert len(cleaned) <= urls.URL_MAX_CHARS
        assert clean(cleaned) == cleaned
        assert canonical(canonical(cleaned)) == canonical(cleaned)
        assert host_of(cleaned)


@given(anything)
@example("HTTP:%%30a")
def test_canonical_is_idempotent_on_anything(url: str) -> None:
    assert canonical(canonical(url)) == canonical(url)
    fingerprint(url)
    host_of(url)


@given(nearly_plain, some_rules)
def test_the_fast_path_answers_as_the_slow_path(url: str, rules: UrlRules) -> None:
    assert clean(url, rules=rules) == urls._clean_slowly(url, rules)
    assert canonical(url) == urls._canonical_slowly(url)


tails = st.from_regex(r"(\?[a-z]{1,3}=[a-z%0-9AF&=+]{0,12})?(#[a-z %?\\]{0,4})?", fullmatch=True)


@given(nearly_plain, tails, some_rules)
def test_the_fast_path_of_queries_and_fragments_answers_as_the_slow_path(
    url: str, tail: str, rules: UrlRules
) -> None:
    assert clean(url + tail, rules=rules) == urls._clean_slowly(url + tail, rules)


@given(
    st.from_regex(r"(/|(\.\./){0,3})[A-Za-z0-9_~./-]{0,14}", fullmatch=True), tails, nearly_plain
)
@example("0", "", "http://a//")
@example("/p", "?a=%2f&utm_x=%20#b", "http://a/b/c?d=e")
def test_the_fast_join_answers_as_urljoin(link: str, tail: str, base: str) -> None:
    link += tail
    assert clean(link, base) == urls._clean_slowly(urljoin(base, link), urls.DEFAULT_RULES)
