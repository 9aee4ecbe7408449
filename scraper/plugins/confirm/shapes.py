"""The shapes of surprising changes: which of them someone at the shop decided on. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from scraper.results.judgement.plausibility import Changes, find_doubt, is_in_order
from scraper.rules.quality import Tolerances

# Someone decided on price changes up to the first amount (the logarithm of a factor; a tax of 16
# instead of 19 %), and on those that all products of a brand, a category, a listing or a price band
# share. A group has this number of products, and at most this share of all.
SMALL, GROUP_LEAST, GROUP_MOST = 0.026, 5, 0.5
# So did someone on one factor for at most this share of the products, unless it is that of a tax.
PART, TAX_NEAR = 0.2, 0.001
TAXES = (1.17, 1.18, 1.19, 1.2, 1.21, 1.22, 1.23, 1.24, 1.25, 1.255, 1.27)
# At most this share of the products is sold out, or back, in one crawl.
SWITCHED_MAX = 0.5
# New texts are in the shop's language if this share of their words is known. They are not another
# product's if at most the second share of them was.
SAME_LANGUAGE, SWAPPED_MAX = 0.5, 0.1
# Changes are confirmed if this share of the values that were requested again came again.
REPEATED = 0.95


@dataclass(frozen=True, slots=True)
class NewValues:
    """The changed values of a field: how many different ones there were before and are now, which
    share of their words is in use at the site, which share another product had before, and which
    share of those that several products share is that of a whole listing."""

    before: int
    after: int
    known_words: float
    swapped: float
    listed: float = 0.0

    @property
    def is_foreign(self) -> bool:
        """True for texts in words that the site did not have: in another language, perhaps."""
        return self.known_words < SAME_LANGUAGE

    def is_rewritten(self, *, alone: bool) -> bool:
        """Returns True for texts that are not mixed up, and that are in the same language: a shop
        in another one changes more than one text of a product (`alone` is false)."""
        return self.swapped <= SWAPPED_MAX and (alone or not self.is_foreign)

    @property
    def decided(self) -> bool:
        """False if many values became one, as if a selector found the same text everywhere, and
        not in a listing that the products moved to."""
        return self.before < 2 or 2 * self.after > self.before or self.listed >= REPEATED


def is_decided_price(name: str, rest: Changes, usual: float | None, tolerances: Tolerances) -> bool:
    """Returns True if someone at the shop decided on price changes. `rest` are those that nothing
    explains: not small, without the old price crossed out, of no group that changed as a whole.

    >>> raised = Changes(500, 50, before=900, after=990, order=1, alike=50, factor=1.1)
    >>> is_decided_price("price", raised, 0.1, Tolerances())
    True
    >>> net = Changes(500, 50, before=900, after=750, order=1, alike=50, factor=1 / 1.2)
    >>> is_decided_price("price", net, 0.1, Tolerances())
    False
    """
    if find_doubt(name, rest, usual, tolerances, price=True, steady=True) is None:
        return True
    taxed = (max(rest.factor, 1 / rest.factor) / tax for tax in TAXES)
    return (
        rest.changed <= PART * rest.compared
        and is_in_order(rest)
        and not any(abs(tax - 1) <= TAX_NEAR for tax in taxed)
    )
