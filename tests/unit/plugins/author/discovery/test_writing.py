"""A text is read back from a definition as that text, by any parser of YAML."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from scraper.plugins.author.discovery.writing import write_inline
from scraper.sites.grammar import yaml12

WORDS = (
    ".5 .inf .nan .NaN +.5 5 1e3 0x1 0o7 ~ null Null true yes off y n none = << 12:30 2026-11-26 - ? "
    "a:b #x .price e5 .e5 ._ 1_0 ._5"
)


@pytest.mark.parametrize("text", WORDS.split())
def test_words_that_mean_more_are_quoted(text: str) -> None:
    assert yaml.safe_load(write_inline([text])) == [text]
    assert yaml12.parse(write_inline([text])).data == [text]


@given(st.text(max_size=12))
@example("a: b")
@example("\u2028\x85")
def test_any_text_is_read_back(text: str) -> None:
    assert yaml12.parse(write_inline({"text": text})).data == {"text": text}
