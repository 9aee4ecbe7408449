"""The form's keys in a definition's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scraper.errors import ConfigError
from scraper.plugins.setup.head_keys import KEYS, read_keys, set_keys

TEXT = """\
# Written by `scraper new`
name: shop
start: https://shop.example/
rate: 4/s                     # requests to one host
tags:
  - old   # for now
  - wood

product:
  fields: {title: h1, rate: .rate}
"""


def test_values_are_set_and_all_else_stays() -> None:
    changed = set_keys(
        TEXT, {"rate": "60/m", "schedule": "0 6 * * *", "tags": "new, 1", "queue": ""}
    )
    assert changed.splitlines() == [
        "# Written by `scraper new`",
        "name: shop",
        'schedule: "0 6 * * *"',
        "start: https://shop.example/",
        "rate: 60/m                     # requests to one host",
        'tags: [new, "1"]',
        "",
        "product:",
        "  fields: {title: h1, rate: .rate}",
    ]
    assert read_keys(changed) == {
        "name": "shop",
        "schedule": "0 6 * * *",
        "rate": "60/m",
        "tags": "new, 1",
    }
    assert "rate:" not in set_keys(TEXT, {"rate": ""}).partition("product")[0]


@pytest.mark.parametrize(
    ("text", "value", "changed"),
    [
        (
            "a: b\ntags:\n  - x\n  - y\n# polite\nq: 1\n",
            "new",
            "a: b\ntags: [new]\n# polite\nq: 1\n",
        ),
        ("tags: # which\n# all\n- x\n\n# end\n", "new", "tags: [new] # which\n# all\n\n# end\n"),
        ("tags:\n- x\n# end\n", "", "# end\n"),
        ("tags: [\n  x, # old\n]  # all\n", "new", "tags: [new]  # all\n"),
        ("tags: # none\n", "new", "tags: [new] # none\n"),
        ("tags:", "new", "tags: [new]"),
        ("a: b\ntags: # none\nq: 1", "", "a: b\nq: 1"),
        ("a: b\rtags:\r- x\rq: 1", "", "a: b\rq: 1"),
    ],
)
def test_comments_stay_around_lists_and_empty_values(text: str, value: str, changed: str) -> None:
    named = "name: a\n"
    assert set_keys(named + text, {"tags": value}) == named + changed


def test_a_text_of_several_lines_is_replaced_and_the_next_comment_stays() -> None:
    text = "name: a\nrate: |\n  4/s\n\n# polite\nqueue: b\n"
    assert set_keys(text, {"rate": "2/s"}) == "name: a\nrate: 2/s\n\n# polite\nqueue: b\n"
    assert set_keys(text, {"rate": ""}) == "name: a\n\n# polite\nqueue: b\n"


@pytest.mark.parametrize("text", ["", "- a", "{name: a}", "name: [", "a", "name: a\n---\nname: b"])
def test_a_text_without_keys_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="fix"):
        set_keys(text, {"rate": "4/s"})
    assert read_keys(text).get("rate") is None


@given(
    st.dictionaries(st.sampled_from([key for key in KEYS if key != "tags"]), st.text(max_size=40))
)
def test_no_value_breaks_out_of_its_key(values: dict[str, str]) -> None:
    """It is set as it is, or refused; no other key changes."""
    try:
        changed = set_keys(TEXT, values)
    except ConfigError:
        return
    before, after = read_keys(TEXT), read_keys(changed)
    for name in ("name", *KEYS):
        assert after.get(name, "") == values.get(name, before.get(name, "")), changed
    assert changed.endswith("\nproduct:\n  fields: {title: h1, rate: .rate}\n")
