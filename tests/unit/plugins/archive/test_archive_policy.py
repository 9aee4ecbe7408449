"""Which pages a definition archives, and what differs between what a product was and what it would
be."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from scraper.cli.common.shared import parse_time
from scraper.domain import Kind
from scraper.plugins.archive.keys import ArchiveUse
from scraper.plugins.archive.prune import keep_s
from scraper.plugins.archive.reextract.differences import FieldChange, Sums
from tests.support.making import a_site

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (None, None),
        (False, None),
        (True, ArchiveUse()),
        ({}, ArchiveUse()),
        (
            {"pages": "all", "answers": "changed", "keep": "12h"},
            ArchiveUse(pages="all", answers="changed", keep="12h"),
        ),
    ],
)
def test_what_may_be_written(written: object, meant: ArchiveUse | None) -> None:
    assert a_site(archive=written).archive == meant


def test_the_defaults_are_product_pages_each_good_answer_a_month() -> None:
    use = a_site(archive=True).archive
    assert use is not None and (use.pages, use.answers, use.keep_s) == (
        "products",
        "all",
        30 * 86400,
    )
    assert [kind for kind in Kind if use.wants(kind)] == [Kind.PRODUCT]
    everything = ArchiveUse(pages="all")
    assert [kind for kind in Kind if everything.wants(kind)] == [Kind.LISTING, Kind.PRODUCT]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("yes", "is not an archive"),
        ({"keep": "0"}, "keeps nothing"),
        ({"keep": "soon"}, "is not a length of time"),
        ({"pages": "none"}, "products"),
        ({"on": "changed"}, "Extra inputs"),
    ],
)
def test_what_is_wrong_is_reported(wrong: object, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        a_site(archive=wrong)


@pytest.mark.parametrize(
    ("keep", "seconds"), [("7d", 604_800), (None, 2_592_000), ("", 2_592_000), ("x", 2_592_000)]
)
def test_how_long_a_stored_definition_keeps(keep: str | None, seconds: float) -> None:
    assert keep_s(keep) == seconds


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20T18:00", datetime(2026, 11, 20, 18, tzinfo=UTC)),
        ("2026-11-20T18:00+01:00", datetime(2026, 11, 20, 17, tzinfo=UTC)),
        ("7d", datetime(2026, 11, 14, 12, tzinfo=UTC)),
        ("90m", datetime(2026, 11, 21, 10, 30, tzinfo=UTC)),
    ],
)
def test_since_when(text: str, at: datetime) -> None:
    assert parse_time(text, NOW) == at


@pytest.mark.parametrize("text", ["2026-13-01", "yesterday", "", "2026-11"])
def test_since_when_is_unknown(text: str) -> None:
    with pytest.raises(ValueError, match="fix"):
        parse_time(text, NOW)


def test_changes_of_a_product_and_their_sums() -> None:
    sums = Sums()
    assert sums.compare(
        "1", {"a": 1, "b": "x", "c": None}, {"a": 2, "b": "", "c": [], "d": "new"}
    ) == {
        "a": FieldChange(1, 2),
        "b": FieldChange("x", None),
        "d": FieldChange(None, "new"),
    }
    assert sums.compare("2", {"a": 1}, {"a": 1, "c": None}) == {}
    sums.add_new({"a": 5, "b": None})
    found = {
        name: (one.before, one.after, one.gained, one.changed, one.lost)
        for name, one in sums.fields.items()
    }
    assert found == {"a": (2, 3, 0, 1, 0), "b": (1, 0, 0, 0, 1), "d": (0, 1, 1, 0, 0)}
    assert (sums.known, sums.found) == (2, 3)
    assert sums.fields["a"].examples == [("1", FieldChange(1, 2))]
