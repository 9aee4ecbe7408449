"""`scraper repair` on redesigned pages, a sample of `make repair`."""

from __future__ import annotations

from collections import Counter

from tools.redesigns import trials


def test_redesigned_pages_are_healed_and_no_proposal_is_wrong() -> None:
    total: Counter[str] = Counter()
    for one in trials(120, 7):
        assert one.wrong == []
        total.update(broken=one.broken, healed=one.healed)
    assert total["broken"] >= 15
    assert total["healed"] >= 0.9 * total["broken"]
