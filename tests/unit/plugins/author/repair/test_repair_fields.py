"""How `scraper repair` writes one field into a definition whose other lines stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from scraper.errors import ScraperError
from scraper.plugins.author.repair.rewriting import rewrite_field

PATH = Path("shop.yaml")
HEAD = "start: https://shop.example/  # home\nlisting: {products: a}\nproduct:\n  fields:\n"
TAIL = "    title: h1   # the name\n# The end.\n"


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("    sku: .sku  # mine\n", {"css": ".no"}, "    sku: .no  # mine\n"),
        ("    sku: .sku  # mine\n", {"jsonld": "sku"}, "    sku: {jsonld: sku}  # mine\n"),
        (
            "    sku: {css: .sku, required: true}  # mine\n",
            {"css": "p > b", "required": True},
            "    sku: {css: 'p > b', required: true}  # mine\n",
        ),
        (
            "    sku:\n      # by hand\n      css: .sku  # mine\n      required: true  # all\n\n",
            {"css": ".no", "required": True},
            "    sku:\n      # by hand\n      css: .no  # mine\n      required: true  # all\n\n",
        ),
        (
            "    sku:\n      css: .sku\n      regex: '(\\d+)'\n      required: true  # all\n",
            {"jsonld": "sku", "required": True},
            "    sku:\n      jsonld: sku\n      required: true  # all\n",
        ),
        (
            "    sku:\n      required: true  # all\n      any:\n        - .sku\n        - {jsonld: sku}\n",
            {"required": True, "any": [{"css": ".no"}, {"jsonld": "sku"}]},
            "    sku:\n      required: true  # all\n      any: [{css: .no}, {jsonld: sku}]\n",
        ),
        (
            "    sku:\n      css: .sku\n      required: true  # all\n",
            {"css": ".no", "regex": "a: (\\d+)", "required": True},
            "    sku: {css: .no, regex: 'a: (\\d+)', required: true}  # all\n",
        ),
    ],
)  # fmt: skip
def test_one_field_is_written_again(before: str, value: dict[str, object], after: str) -> None:
    assert rewrite_field(HEAD + before + TAIL, PATH, "sku", value) == HEAD + after + TAIL


def test_a_field_that_is_shared_by_an_anchor_is_not_written_for_both() -> None:
    text = HEAD + "    sku: &s {css: .sku}\n    mpn: *s\n" + TAIL
    with pytest.raises(ScraperError, match="cannot be rewritten by itself"):
        rewrite_field(text, PATH, "mpn", {"css": ".no"})
