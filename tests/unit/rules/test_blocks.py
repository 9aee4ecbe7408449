"""Blocks: every known challenge by its page, no ordinary page by any, and the site's own markers.

A page in tests/pages is an answer as it came: status line, headers, an empty line, the body.
`@@FILLER n@@` means n bytes of text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from scraper.rules import blocks
from scraper.rules.block_signatures import PAGE_MAX, SIGNS, Sign
from scraper.rules.blocks import (
    LINKS_MAX,
    MARKER_MAX,
    Block,
    Marker,
    detect_block,
    detect_block_redirect,
    judge_missing_fields,
)
from scraper.sites.blocked_keys import Blocked, Markers, compile_markers, encode_spellings

PAGES = Path(__file__).parents[2] / "pages"
BLOCKED = sorted((PAGES / "blocked").glob("*.http"))
ORDINARY = sorted((PAGES / "ordinary").glob("*.http"))
BY_NAME = {sign.sign: sign for sign in SIGNS}
STATUS_ALONE = [sign.sign for sign in SIGNS if not (sign.headers or sign.titles or sign.body)]
LINKS = b'<a href="/p/1">A kettle</a>\n' * (LINKS_MAX + 1)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def answer(path: Path) -> Answer:
    head, _, body = path.read_bytes().partition(b"\n\n")
    first, *lines = head.decode().splitlines()
    headers = dict(line.split(": ", 1) for line in lines)
    assert all(name == name.lower() for name in headers)
    body = re.sub(rb"@@FILLER (\d+)@@", lambda found: b"kettle " * (int(found[1]) // 7), body)
    return Answer(int(first.split()[1]), headers, body)


def sign_of(found: Block | None) -> str | None:
    return found.sign if found else None


# --- the known challenges
# --------------------------------------------------------------------------------------------


def test_every_sign_has_a_page_of_its_own() -> None:
    assert len(BY_NAME) == len(SIGNS)
    assert {path.stem for path in BLOCKED} == set(BY_NAME)


@pytest.mark.parametrize("path", BLOCKED, ids=lambda path: path.stem)
def test_a_known_challenge_is_recognised_as_itself(path: Path) -> None:
    page = answer(path)
    found = detect_block(page.status, page.headers, page.body)
    assert sign_of(found) == path.stem
    assert (
        found is not None
        and found.vendor == BY_NAME[path.stem].vendor
        and found.by in ("headers", "page", "status")
    )


@pytest.mark.parametrize("path", BLOCKED, ids=lambda path: path.stem)
def test_everything_that_a_sign_names_is_needed(path: Path) -> None:
    """A page that lacks one of the parts is not recognised as this challenge, by whatever it may be
    recognised then."""
    page, sign = answer(path), BY_NAME[path.stem]
    for part in sign.body:
        assert (
            sign_of(detect_block(page.status, page.headers, page.body.replace(part, b" ")))
            != sign.sign
        )
    for name, part in sign.headers:
        assert part in page.headers[name]
        without = (
            {**page.headers, name: "other"}
            if part
            else {k: v for k, v in page.headers.items() if k != name}
        )
        assert sign_of(detect_block(page.status, without, page.body)) != sign.sign
    if sign.titles:
        retitled = re.sub(rb"(?is)<title>.*?</title>", b"<title>A kettle</title>", page.body)
        assert sign_of(detect_block(page.status, page.headers, retitled)) != sign.sign
    if sign.statuses:
        assert page.status in sign.statuses
        assert sign_of(detect_block(200, page.headers, page.body)) != sign.sign


@pytest.mark.parametrize("path", ORDINARY, ids=lambda path: path.stem)
def test_an_ordinary_page_is_none(path: Path) -> None:
    page = answer(path)
    assert detect_block(page.status, page.headers, page.body) is None


def test_a_page_that_is_large_is_large() -> None:
    assert len(answer(PAGES / "ordinary" / "large.http").body) > 1_900_000


@pytest.mark.parametrize("path", BLOCKED, ids=lambda path: path.stem)
def test_header_names_alone_decide_nothing_on_a_good_page(path: Path) -> None:
    """What an answer of the same shop has besides: its headers, but for those that are the sign."""
    page, sign = answer(path), BY_NAME[path.stem]
    if sign.headers and not (sign.body or sign.statuses):
        return
    assert (
        detect_block(
            200,
            {**page.headers, "content-type": "text/html"},
            b"<title>A kettle</title><h1>A kettle</h1>",
        )
        is None
    )


@pytest.mark.parametrize(
    "sign", [sign for sign in SIGNS if sign.body and not sign.titles], ids=lambda sign: sign.sign
)
def test_a_page_with_many_links_is_a_shops(sign: Sign) -> None:
    """The texts alone, in a page of the shop's own, are a quotation."""
    page = answer(PAGES / "blocked" / f"{sign.sign}.http")
    if page.status < 400:
        assert detect_block(page.status, page.headers, LINKS + page.body) is None
        assert (
            detect_block(page.status, page.headers, page.body + b"kettle " * 4000 + LINKS) is None
        )


def test_an_error_with_many_links_may_be_a_block_all_the_same() -> None:
    page = answer(PAGES / "blocked" / "wordfence.http")
    assert sign_of(detect_block(503, page.headers, LINKS + page.body)) == "wordfence"


def test_a_status_names_a_block_only_where_nothing_better_does() -> None:
    assert STATUS_ALONE == ["status-403", "status-406", "status-418", "status-999"]
    page = answer(PAGES / "blocked" / "akamai-denied.http")
    assert sign_of(detect_block(403, page.headers, page.body)) == "akamai-denied"
    assert sign_of(detect_block(403, {}, b"")) == "status-403"
    for status in (200, 204, 301, 304, 400, 401, 402, 404, 405, 408, 410, 429, 451, 500, 502, 503):
        assert detect_block(status, {}, b"") is None


def test_json_and_sitemaps_are_not_searched() -> None:
    page = answer(PAGES / "blocked" / "anubis.http")
    for kind in ("application/json", "application/xml", "text/xml"):
        assert detect_block(200, {"content-type": kind}, page.body) is None
    assert sign_of(detect_block(200, {}, page.body)) == "anubis"
    assert sign_of(detect_block(200, {"content-type": "Text/HTML"}, page.body)) == "anubis"


@pytest.mark.parametrize("charset", ["latin-1", "utf-8"])
def test_a_challenge_in_another_language_and_character_set(charset: str) -> None:
    page = answer(PAGES / "blocked" / "anubis.http").body.decode()
    assert (
        sign_of(detect_block(200, {}, page.replace("Einen", "Prüfung über").encode(charset)))
        == "anubis"
    )


def test_utf_16_is_not_read_and_does_no_harm() -> None:
    page = answer(PAGES / "blocked" / "anubis.http").body.decode()
    assert detect_block(200, {}, page.encode("utf-16")) is None


PARTS = sorted({part for sign in SIGNS for part in (*sign.body, *sign.titles)})
BODIES = st.one_of(
    st.binary(max_size=3000),
    st.lists(
        st.one_of(
            st.sampled_from(PARTS),
            st.sampled_from([b"<title", b"<TITLE", b">", b"<", b"</title>"]),
            st.binary(),
        ),
        max_size=30,
    ).map(b"".join),
)
HEADERS = st.dictionaries(
    st.one_of(
        st.sampled_from(sorted({name for sign in SIGNS for name, _ in sign.headers})),
        st.text(max_size=12),
    ),
    st.text(max_size=30),
    max_size=6,
)


@given(st.integers(0, 1000), HEADERS, BODIES)
@example(200, {}, b"<title" * 100)
@example(200, {}, b"<title>")
def test_whatever_comes_there_is_an_answer(
    status: int, headers: dict[str, str], body: bytes
) -> None:
    found = detect_block(status, headers, body)
    assert found is None or (found.sign in BY_NAME and BY_NAME[found.sign].vendor == found.vendor)


class _Watched(bytes):
    """Bytes that know how far they were read."""

    read = 0

    def find(self, *args: Any) -> int:
        end = args[2] if len(args) > 2 else len(self)
        type(self).read = max(type(self).read, min(end, len(self)))
        return super().find(*args)

    def count(self, *args: Any) -> int:
        type(self).read = max(type(self).read, len(self))
        return super().count(*args)

    def __contains__(self, part: Any) -> bool:
        type(self).read = max(type(self).read, len(self))
        return super().__contains__(part)


@pytest.mark.parametrize(
    "title", ["A kettle", *(title.decode() for sign in SIGNS for title in sign.titles)]
)
def test_of_a_large_page_only_the_beginning_is_read(title: str) -> None:
    _Watched.read = 0
    detect_block(200, {}, _Watched(f"<title>{title}</title>".encode() + b"kettle " * 300_000))
    assert 0 < _Watched.read <= PAGE_MAX


def test_a_challenge_that_is_padded_is_known_by_its_title() -> None:
    page = answer(PAGES / "blocked" / "cloudflare-blocked.http")
    assert sign_of(detect_block(200, {}, page.body + b" " * 3_000_000)) == "cloudflare-blocked"


def test_a_block_describes_itself() -> None:
    assert str(detect_block(200, {"cf-mitigated": "challenge"}, b"")) == (
        "blocked (cloudflare-challenge): Cloudflare, known by its headers"
    )


# --- redirects
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "sign"),
    [
        (
            "https://validate.perfdrive.com/64b926de/?ssa=be69&ssc=https%3A%2F%2Fshop.example%2F",
            "radware",
        ),
        ("https://shop.queue-it.net/?c=shop&e=sale&t=https%3A%2F%2Fshop.example", "queue-it"),
        ("//geo.captcha-delivery.com/captcha/?initialCid=A", "datadome"),
        ("https://shop.example/_____tmd_____/punish?x5secdata=xcE0", "alibaba-punish"),
        ("/.well-known/sgcaptcha/?r=%2F", "siteground-captcha"),
        ("/.within.website/x/cmd/anubis/api/make-challenge", "anubis"),
        ("/errors/validateCaptcha", "amazon-captcha"),
        ("https://www.shop.example/splashui/challenge?ap=1&ru=x", "ebay-interruption"),
        ("/showcaptcha?retpath=x", "yandex-captcha"),
        ("https://www.google.com/sorry/index?continue=x", "google-sorry"),
        (
            "https://shop.example/checkpoint?return_to=https%3A%2F%2Fshop.example%2Fp%2F1",
            "redirect-captcha",
        ),
        ("/challenge?next=%2Fp%2F1", "redirect-captcha"),
        ("/blocked?url=L2lwLzE=&uuid=1-2&vid=3-4&g=b", "redirect-captcha"),
        ("/captcha", "redirect-captcha"),
        ("/Captcha/?x=1", "redirect-captcha"),
    ],
)
def test_a_redirect_to_a_challenge(location: str, sign: str) -> None:
    assert sign_of(detect_block_redirect(location)) == sign


@pytest.mark.parametrize(
    "location",
    [
        "", "/", "https://shop.example/p/1", "/challenge", "/challenge?color=blue", "/c/captcha-the-board-game", "/captchas",
        "https://notqueue-it.net/", "https://queue-it.net.shop.example/", "/login?return_to=%2Fp%2F1", "/blocked-drains",
        "/verify-age?next=%2Fp%2F1", "https://[", "http://[::1", "/p/1?u=https://shop.queue-it.net/", "/challenge?next=",
    ],
)  # fmt: skip
def test_another_redirect_is_none(location: str) -> None:
    assert detect_block_redirect(location) is None


@given(
    st.one_of(
        st.text(), st.text().map("http://".__add__), st.text().map("/challenge?next=/".__add__)
    )
)
def test_any_location_has_an_answer(location: str) -> None:
    detect_block_redirect(location)


# --- extraction
# ------------------------------------------------------------------------------------------------------


def test_fields_that_were_there_before_are_looked_for_once_more() -> None:
    found = judge_missing_fields(good_before=True, suspected_before=False, other_way=True)
    assert found is not None and (found.sign, found.by) == ("fields-missing", "extraction")
    # missing there too
    assert judge_missing_fields(good_before=True, suspected_before=True, other_way=True) is None
    # never seen good
    assert judge_missing_fields(good_before=False, suspected_before=False, other_way=True) is None
    # no other source to ask
    assert judge_missing_fields(good_before=True, suspected_before=False, other_way=False) is None


# --- the site's own markers
# ------------------------------------------------------------------------------------------


def markers(*written: Any) -> tuple[Marker, ...]:
    return compile_markers(TypeAdapter(Markers).validate_python(list(written)))


def marked(
    written: Any, status: int = 200, body: bytes = b"", url: str = "", **headers: str
) -> bool:
    found = detect_block(
        status,
        {name.replace("_", "-"): value for name, value in headers.items()},
        body,
        markers(written),
        url=url,
    )
    assert found is None or (found.sign, found.by) == ("marker", "marker")
    return found is not None


def test_a_text_marks_a_page_in_any_character_set() -> None:
    for text in (
        "unusual activity",
        "ungewöhnliche Aktivität",
        "Вы не робот",
        "異常なアクセス",
        "异常访问",
    ):
        for charset in ("utf-8", "cp1252", "cp1251", "shift_jis", "euc_jp", "gb18030", "big5"):
            try:
                body = f"<p>{text}</p>".encode(charset)
            except UnicodeEncodeError:
                continue
            assert marked(text, body=body), (text, charset)
        assert not marked(text, body=b"<h1>A kettle</h1>")
    assert not marked("Unusual activity", body=b"unusual activity")


def test_a_text_is_found_as_it_reads() -> None:
    assert encode_spellings("Press & Hold") == (b"Press & Hold", b"Press &amp; Hold")
    assert marked("Press & Hold", body=b"<p>Press &amp; Hold</p>")


def test_all_that_a_marker_names_must_hold() -> None:
    written = {
        "text": "dealers only", "status": [200, 302], "header": {"X-Shield": "deny"}, "url": "/sorry", "regex": r"case \d+",
    }  # fmt: skip
    good: dict[str, Any] = {
        "body": b"dealers only, case 17",
        "status": 200,
        "x_shield": "deny; 1",
        "url": "http://a/sorry",
    }
    assert marked(written, **good)
    for name, other in {
        "body": b"dealers only",
        "status": 404,
        "x_shield": "pass",
        "url": "http://a/p",
    }.items():
        assert not marked(written, **{**good, name: other}), name
    assert not marked(written, **{**good, "body": b"case 17"})


def test_a_header_may_have_any_value_but_must_be_there() -> None:
    assert marked({"header": {"x-blocked": ""}}, x_blocked="")
    assert not marked({"header": {"x-blocked": ""}})


def test_a_regex_reads_the_page_in_its_own_character_set() -> None:
    assert marked({"regex": "gesperrt für .{3}!"}, body="<p>gesperrt für Sie!</p>".encode("cp1252"))
    assert marked(
        {"regex": "ロボット.?"}, body='<meta charset="shift_jis">ロボット'.encode("shift_jis")
    )


def test_a_regex_reads_a_page_that_is_cut_off_in_a_letter() -> None:
    body = b"<p>" + "für ä ".encode() + b"<i>" + "ä".encode() * MARKER_MAX
    assert marked({"regex": "für ä"}, body=body) and marked({"regex": "für ä"}, body=b"x" + body)
    assert not marked({"regex": "needle"}, body=b" " * MARKER_MAX + b"needle")
    assert not marked("needle", body=b" " * MARKER_MAX + b"needle")


def test_a_regex_that_takes_too_long_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scraper.sites.grammar.selectors.REGEX_TIMEOUT_S", 0.01)
    assert not marked({"regex": "(a|a)*$"}, body=b"a" * 5000 + b"b")


def test_known_challenges_are_named_first() -> None:
    assert (
        sign_of(detect_block(403, {"cf-mitigated": "challenge"}, b"sorry", markers("sorry")))
        == "cloudflare-challenge"
    )
    assert sign_of(detect_block(403, {}, b"sorry", markers("sorry"))) == "marker"
    found = detect_block(200, {}, b"sorry", markers("hello", {"status": 200, "text": "sorry"}))
    assert (
        found is not None and found.vendor == "the site's own marker: status 200 and text 'sorry'"
    )


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("abc", "is too short, good pages may"),
        ({}, "is empty"),
        ({"status": 200}, "alone also matches good pages"),
        ({"status": [403, 302]}, "302 alone"),
        ({"regex": "("}, "bad regular expression"),
        ({"url": ""}, "is empty"),
        ({"status": 42}, "greater than or equal to 200"),
        ({"header": {"x y": "z"}}, "match pattern"),
        ({"css": "h1"}, "Extra inputs"),
    ],
)
def test_a_marker_that_cannot_be_meant_is_refused(written: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        markers(written)


def test_one_marker_needs_no_list() -> None:
    one = TypeAdapter(Markers).validate_python("sorry, no")
    assert (
        one
        == TypeAdapter(Markers).validate_python({"text": "sorry, no"})
        == (Blocked(text="sorry, no"),)
    )
    assert TypeAdapter(Markers).validate_json(TypeAdapter(Markers).dump_json(one)) == one
    assert TypeAdapter(Markers).json_schema()


@given(
    st.binary(max_size=500),
    st.text(min_size=4, max_size=20).filter(lambda text: len(text.strip()) >= 4),
)
def test_markers_never_raise(body: bytes, text: str) -> None:
    found = markers(text, {"regex": "a.c"}, {"url": "x"})
    detect_block(
        200, {"content-type": "text/html; charset=utf-16"}, body, found, url="http://x.example/"
    )


def test_the_table_is_what_is_documented() -> None:
    assert all(sign.statuses or sign.headers or sign.titles or sign.body for sign in SIGNS)
    assert all(title == b" ".join(title.lower().split()) for sign in SIGNS for title in sign.titles)
    assert all(
        name == name.lower() and part == part.lower()
        for sign in SIGNS
        for name, part in sign.headers
    )
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", sign.sign) and sign.note for sign in SIGNS)
    redirects = {block.sign for block in (*blocks._HOSTS.values(), *blocks._PATHS.values())}
    assert redirects - set(BY_NAME) == {"yandex-captcha"}
