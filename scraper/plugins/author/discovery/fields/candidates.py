"""Candidates for the source of a field: statements for machines, script state, script text, and
visible elements. Pure.

Nothing is decided here: `scraper.plugins.author.discovery.fields.induction` decides by what each
candidate gives on many pages.
"""

from __future__ import annotations

from collections.abc import Iterable

from scraper.extract.heuristics.state_fields import find_field_paths
from scraper.plugins.author.discovery.fields.ranked_sources import FIXED_CANDIDATES, Candidate
from scraper.plugins.author.discovery.fields.samples import ProductSample
from scraper.plugins.author.discovery.fields.visible_candidates import visible_candidates


def find_candidates(name: str, samples: Iterable[ProductSample]) -> list[Candidate]:
    """Returns the field's candidates on all pages, each once."""
    unique = {str(candidate.source): candidate for candidate in FIXED_CANDIDATES.get(name, ())}
    for sample in samples:
        for path, rank in find_field_paths(name, sample.document.state):
            unique.setdefault(path, Candidate("state", {"state": path}, rank))
        for candidate in visible_candidates(name, sample):
            rival = unique.get(str(candidate.source))
            if rival is None or candidate.rank < rival.rank:
                unique[str(candidate.source)] = candidate
    return list(unique.values())
