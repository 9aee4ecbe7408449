"""Which validators are kept and sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.crawl import context
from scraper.crawl.context import ExtractorVersion, make_context
from scraper.domain import Kind, LastReading, LeasedPage, Validators
from scraper.rules.revisit import ETAG_MAX, Bounds, read_validators
from scraper.settings import Settings
from scraper.sites.definition import Site
from scraper.sites.functions import read_function_source
from tests.support.making import a_site

HOUR, DAY = 3600.0, 86_400.0


# Validators.

tags = st.builds(
    lambda weak, text: f'{"W/" if weak else ""}"{text}"',
    st.booleans(),
    st.text(
        st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='"'), max_size=60
    ),
)


@given(tags)
def test_a_tag_is_kept_as_it_came(tag: str) -> None:
    assert read_validators({"etag": tag}) == Validators(tag, None)


@given(
    st.text(st.characters(max_codepoint=0xFF), max_size=700),
    st.text(st.characters(max_codepoint=0xFF), max_size=60),
)
def test_whatever_a_server_sends_what_is_kept_is_one_line_of_ascii(
    etag: str, modified: str
) -> None:
    kept = read_validators({"etag": etag, "last-modified": modified})
    for value in kept:
        assert value is None or (
            value.isascii() and value.isprintable() and 0 < len(value) <= ETAG_MAX
        )
    assert kept.etag is None or (
        kept.etag.endswith('"') and kept.etag.removeprefix("W/").startswith('"')
    )


@pytest.mark.parametrize(
    ("modified", "date", "kept"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", None, True),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT", True),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", False),
        ("Fri, 30 Dec 1994 08:49:37 GMT", "Sun, 01 Jan 1995 08:49:37 GMT", True),
        ("Sun, 01 Jan 1995 08:49:37 GMT", "Fri, 30 Dec 1994 08:49:37 GMT", False),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "yesterday", True),
        ("Sunday, 06-Nov-94 08:49:37 GMT", None, False),
        ("Sun Nov  6 08:49:37 1994", None, False),
        ("Sun, 06 Nov 1994 08:49:37 +0100", None, False),
        ("Sun, 06 Nov 1994 08:49:37 GMT\r\nX: y", None, False),
        ("Sun, ٠٦ Nov 1994 08:49:37 GMT", None, False),
        ("0", None, False),
    ],
)
def test_a_date_is_kept_where_it_is_one_and_earlier_than_the_answer(
    modified: str, date: str | None, kept: bool
) -> None:
    headers = {"last-modified": modified} | ({"date": date} if date else {})
    assert read_validators(headers) == Validators(None, modified if kept else None)


def leased(known: LastReading | None, blocked: int = 0) -> LeasedPage:
    return LeasedPage(
        1,
        1,
        "https://shop.example/1",
        Kind.PRODUCT,
        "shop.example",
        0,
        0,
        1,
        10,
        blocked=blocked,
        last_reading=known,
    )


def test_when_a_last_reading_is_believed() -> None:
    site = a_site(conditional="2d")
    context = make_context(1, 1, site, Settings())
    reader = context.extractor_version.hash
    assert reader is not None
    known = LastReading(Validators('"a"'), extractor_hash=reader, read_s=DAY)
    assert context.last_reading_of(leased(known)) is known
    for page in (
        leased(None),
        leased(replace(known, extractor_hash=7)),  # another definition
        leased(replace(known, read_s=2 * DAY)),  # read long ago
        leased(known, blocked=1),
    ):
        assert context.last_reading_of(page) is None
    off = make_context(1, 1, a_site(conditional=False), Settings())
    assert off.extractor_version.hash == reader and off.last_reading_of(leased(known)) is None
    unknown = ExtractorVersion(a_site(product={"function": "no_such_module:product"}), READERS)
    assert unknown.hash is None
    assert replace(context, extractor_version=unknown).last_reading_of(leased(known)) is None


# What reads a page.


READERS = ("reads_one", "reads_two", "no_such_module")


def number(**more: object) -> int | None:
    return ExtractorVersion(a_site(**more), READERS).hash


def test_the_same_definition_is_the_same_reader_and_fits_a_bigint() -> None:
    one = number()
    assert one == number(
        rate="1/s", schedule="0 6 * * *", conditional="1d", revisit={"min": "1d", "max": "9d"}
    )
    assert one is not None and -(2**63) <= one < 2**63
    others = [number(headers={"A": "b"}), number(product={"fields": {"title": "h2"}}), number(user_agent="browser"),
              number(trailing_slash="strip"), number(proxy="residential", region="de")]  # fmt: skip
    assert len({one, *others}) == 6


def test_another_version_of_the_extractor_is_another_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = number()
    monkeypatch.setattr(context, "OUR_VERSION", "9.9.9")
    assert number() != before


def test_a_changed_function_is_another_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for name, body in (("one", "yield {}"), ("two", "yield {'a': 1}")):
        (tmp_path / f"reads_{name}.py").write_text(f"def product(page):\n    {body}\n")
    one, two = (number(product={"function": f"reads_{name}:product"}) for name in ("one", "two"))
    assert one is not None and two is not None and one != two
    site = a_site(product={"function": "reads_one:product"})
    (tmp_path / "reads_one.py").write_text("def product(page):\n    yield {'b': 2}\n")
    read_function_source.cache_clear()
    assert ExtractorVersion(site, READERS).hash != one


def test_what_cannot_be_named_is_never_asked_with_validators() -> None:
    assert number(product={"function": "no_such_module:product"}) is None


def test_a_definition_says_it_in_three_ways() -> None:
    assert Site.model_validate(a_site().model_dump(mode="json")) == a_site()
    assert (a_site().revisit.bounds, a_site().conditional_s) == (Bounds(DAY, DAY), 30 * DAY)
    adaptive = a_site(revisit={"min": "6h", "max": "14d"}, conditional=False)
    assert (adaptive.revisit.bounds, adaptive.revisit_s, adaptive.conditional_s) == (
        Bounds(6 * HOUR, 14 * DAY),
        6 * HOUR,
        0,
    )
    assert Site.model_validate(adaptive.model_dump(mode="json")) == adaptive
    assert a_site(conditional="3d").conditional_s == 3 * DAY
    assert a_site(revisit=0).revisit.bounds == Bounds(0, 0)
