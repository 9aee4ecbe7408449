"""Candidates for the source of a field: statements for machines, script state, script text, and
visible elements. Pure.

Nothing is decided here: `scraper.plugins.author.discovery.fields.induction` decides by what each
candidate gives on many pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from scraper.extract.heuristics.state_fields import find_field_paths
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.fields.standard import FIXED_CANDIDATES, Candidate
from scraper.plugins.author.discovery.fields.visible_candidates import (
    LACKED_FIELDS,
    visible_candidates,
)

# Fields that a product may lack, and that other products' cards show.
_SHOWN_ON_CARDS = frozenset({"price", "list_price", "rating"})
# Where a product lacks the field, another product's card on the page would give it.
UNCONFINED_RANK = 12
# What follows a neighbour is another element where a product lacks the field.
SIBLING_RANK = 8
# A key that a build of the shop's scripts made up is another one after the next.
BUILT_KEY_RANK = 12
KEY_CHARS_MIN, KEY_CHANGES_MIN = 10, 4
# What holds the heading too may hold such cards on other pages.
WIDE_RANK = 6


def find_candidates(name: str, samples: Sequence[ProductSample]) -> list[Candidate]:
    """Returns the field's candidates on all pages, each once."""
    unique = {str(candidate.source): candidate for candidate in FIXED_CANDIDATES.get(name, ())}
    for sample in samples:
        for path, rank in find_field_paths(name, sample.document.state):
            rank += BUILT_KEY_RANK * has_built_key(path)
            unique.setdefault(path, Candidate("state", {"state": path}, rank))
        for candidate in visible_candidates(name, sample):
            rival = unique.get(str(candidate.source))
            if rival is None or candidate.rank < rival.rank:
                unique[str(candidate.source)] = candidate
    if name in LACKED_FIELDS:
        return [_weigh_sibling(candidate) for candidate in unique.values()]
    if name not in _SHOWN_ON_CARDS:
        return list(unique.values())
    return [_weigh_confinement(candidate, samples) for candidate in unique.values()]


def has_built_key(path: str) -> bool:
    """Returns whether a key of the path is a long mixture of letters and digits.

    >>> has_built_key("page.e3b2ozl2xcmx099x86.sku"), has_built_key("page.product2.sku")
    (True, False)
    """
    return any(
        len(key) >= KEY_CHARS_MIN
        and len(re.findall(r"(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])", key, re.I)) >= KEY_CHANGES_MIN
        for key in path.split(".")
    )


def _weigh_sibling(candidate: Candidate) -> Candidate:
    if candidate.origin == "page" and "+" in candidate.source.get("css", ""):
        return candidate._replace(rank=candidate.rank + SIBLING_RANK)
    return candidate


def _weigh_confinement(candidate: Candidate, samples: Sequence[ProductSample]) -> Candidate:
    """Returns the candidate, with a higher rank if its selector may match something else where a
    product lacks the field."""
    css = candidate.source.get("css", "").partition("::")[0].strip()
    if candidate.origin != "page" or not css or ":contains(" in css:
        return candidate
    if any(sample.reaches_others(css) or sample.is_around_heading(css) for sample in samples):
        return candidate._replace(rank=candidate.rank + UNCONFINED_RANK)
    if "+" in css:
        return _weigh_sibling(candidate)
    if any(sample.is_near_heading(css) for sample in samples):
        return candidate._replace(rank=candidate.rank + WIDE_RANK)
    return candidate
