"""Whether a crawl's data can be trusted: its fields' figures against those of recent crawls. Pure:
numbers in, verdicts out.

Two questions are asked of the same numbers when a crawl has ended. Do values that vanished stay
held (`broken`)? Weak evidence does, since one that is held too long is mended by the next crawl. Is
the crawl suspect (`judge_field`)? That wants more, since people are woken by it.

How much evidence there is, is one number: how improbable so few values would be if nothing had
changed, as the Chernoff bound of the binomial distribution, in nats. It is exact where not one
value is found, and never says too much elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

# This is a week of a daily crawl: one odd crawl does not move their median.
RECENT_CRAWLS = 7
# Rates of fewer records say little.
FEW = 20
# A crawl that has read this share of its good product pages stands for all.
WHOLE = 0.5
# No field is expected on more: one page without it proves nothing.
CAP = 0.99
# One in twenty is enough to hold a value.
DOUBTFUL = math.log(20)
# One in a thousand is enough to call somebody.
CERTAIN = math.log(1000)
# Where fewer values are to be expected, none is missed.
DISTINCT_LEAST = 5.0
# A required field is on this share of the product pages, and another one that fewer have is worth a
# look, where nobody knows what is usual.
REQUIRED, SELDOM = 0.8, 0.5
# A field that none of so many product pages has, and no crawl has had before, is misread.
NEVER_LEAST = 5
# So begins what is said of a listing page that names fewer products than it should.
NOT_FULL = "it names"
# So many values vanish with a field that broke so late that its share of the whole crawl does not
# show it.
VANISHED_AT_END = 10

ReasonKind = Literal[
    "never",
    "fill",
    "floor",
    "late",
    "mistyped",
    "distinct",
    "products",
    "products_floor",
    "changed",
    "vanished",
    "implausible",
    "pages",
    "missed",
    "listings",
]


@dataclass(frozen=True, slots=True)
class Tolerances:
    """What a crawl may differ from its predecessors, as the site definition says. Shares, but for
    `products_floor`. `required` names the fields without which a page is no product's, `varied`
    those that are not the same for all products."""

    products: float = 0.5
    fill: float = 0.8
    mistyped: float = 0.1
    distinct: float = 0.25
    changed: float = 0.1
    products_floor: int = 0
    floors: Mapping[str, float] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    varied: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FieldFigures:
    """One field in one crawl. `records` is how many products were looked for, `found` on how many
    of them the field was, `mistyped` where something else was; `distinct` its values among
    `sampled` stored ones; `vanished` how many products have a value that was not found any more;
    the recent ones are of the last fifty records or so, older ones fading. Of `compared` products
    that were known before, `changed` got another value."""

    records: int
    found: int
    mistyped: int = 0
    distinct: int = 0
    sampled: int = 0
    vanished: int = 0
    recent_records: float = 0.0
    recent_found: float = 0.0
    compared: int = 0
    changed: int = 0

    @property
    def fill(self) -> float:
        return self.found / self.records if self.records else 0.0


@dataclass(frozen=True, slots=True)
class UsualFigures:
    """A field in recent crawls: medians, but for `changed`, the largest share of products that got
    another value. `fill` or `changed` None: nothing is known of it."""

    fill: float | None = None
    mistyped: float = 0.0
    distinct: float = 0.0
    sampled: float = 0.0
    changed: float | None = None

    @property
    def own_share(self) -> float:
        """How many of its values are no other product's, roughly."""
        return self.distinct / self.sampled if self.sampled else 0.0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a crawl is suspect, in a sentence for people. `field` None: the crawl as a whole."""

    field: str | None
    what: ReasonKind
    text: str


def improbability(found: float, records: float, expected: float) -> float:
    """How improbable it is, in nats, to find no more than that where `expected` is the share: 0 for
    nothing odd.

    None of 1, where 99 % are usual, is 4.6; none of 10, where 20 % are, 2.2; 40 of 100, where half
    are, 2.0.
    """
    expected = min(expected, CAP)
    share = found / records if records > 0 else expected
    if share >= expected or expected <= 0:
        return 0.0
    missing = (1 - share) * math.log((1 - share) / (1 - expected))
    present = share * math.log(share / expected) if share > 0 else 0.0
    return records * (missing + present)


def comparable_crawls(shares: Mapping[int, float], share: float | None) -> set[int]:
    """Which of earlier crawls, by the share of their good product pages that they read, one with
    this share is compared with. Of a crawl in which most pages were fresh or answered 304, what was
    read is what has changed or is new, and that is no sample of the whole: a field that new
    products lack is rare in it, one that moves with the price is common. So whole crawls are
    compared with whole ones, and others with others, wherever there are some.

    >>> comparable_crawls({1: 1.0, 2: 0.05, 3: 0.04}, 0.9)
    {1}
    >>> comparable_crawls({1: 1.0, 2: 0.05}, 0.1), comparable_crawls({1: 1.0}, 0.1)
    ({2}, {1})
    """
    same = {
        crawl
        for crawl, read in shares.items()
        if share is None or (read >= WHOLE) == (share >= WHOLE)
    }
    return same or set(shares)


def usual_figures(history: Sequence[FieldFigures]) -> UsualFigures:
    """The median of recent crawls, the newest first. Those that read next to nothing count only
    where there are no others."""
    chosen = [figures for figures in history if figures.records >= FEW][:RECENT_CRAWLS] or list(
        [figures for figures in history if figures.records][:RECENT_CRAWLS]
    )
    if not chosen:
        return UsualFigures()
    sampled = [figures for figures in chosen if figures.sampled] or [FieldFigures(0, 0)]
    fill = median(figures.fill for figures in chosen)
    # What is sold out may lack a field. Once a crawl was believed, its successors are, too.
    if chosen[0].fill < fill * Tolerances().fill:
        fill = chosen[0].fill
    return UsualFigures(
        fill=fill,
        mistyped=median(figures.mistyped / figures.records for figures in chosen),
        distinct=median(figures.distinct for figures in sampled),
        sampled=median(figures.sampled for figures in sampled),
        changed=max(
            (figures.changed / figures.compared for figures in chosen if figures.compared >= FEW),
            default=None,
        ),
    )


def fill_threshold(name: str, usual: UsualFigures, tolerances: Tolerances) -> float:
    """The fill rate below which the field breaks: its floor, or the tolerated share of the usual
    rate. 0: it never does."""
    floor = tolerances.floors.get(name)
    return floor if floor is not None else (usual.fill or 0.0) * tolerances.fill


def is_broken(now: FieldFigures, line: float, expected: float) -> bool:
    """Whether values of the field that vanished stay held. Weaker evidence does than for a verdict,
    for what is wrongly held is right again with the product's next good reading."""
    few = (
        now.found < line * now.records
        and improbability(now.found, now.records, expected) >= DOUBTFUL
    )
    return few or _late(now, line, expected)


def judge_field(
    name: str, now: FieldFigures, usual: UsualFigures, tolerances: Tolerances
) -> Reason | None:
    """The field's breach, if there is one: the one that says most."""
    line, expected = fill_threshold(name, usual, tolerances), usual.fill or 0.0
    floor = tolerances.floors.get(name)
    found_text = f"found on {now.found:,} of {now.records:,} product pages ({now.fill:.0%})"
    mistyped = now.mistyped / now.records if now.records else 0.0
    tolerated = usual.mistyped + tolerances.mistyped
    if (
        floor != 0
        and mistyped > tolerated
        and improbability(now.records - now.mistyped, now.records, 1 - tolerated) >= CERTAIN
    ):
        usual_text = f", usually on {usual.mistyped:.0%}" if usual.fill is not None else ""
        return Reason(
            name,
            "mistyped",
            f"not of its type on {now.mistyped:,} of {now.records:,} product pages{usual_text}",
        )
    if floor is not None:
        if (
            now.records
            and now.fill < floor
            and (now.records >= FEW or improbability(now.found, now.records, floor) >= CERTAIN)
        ):
            return Reason(name, "floor", f"{found_text}, its floor is {floor:.0%}")
    elif usual.fill is None and name in tolerances.required and _few(now, REQUIRED):
        return Reason(name, "fill", f"{found_text}, and it is required")
    elif usual.fill is None and not now.found and now.records >= NEVER_LEAST and tolerances.fill:
        text = f"found on none of {now.records:,} product pages (if no product has it: `floor: 0`)"
        return Reason(name, "never", text)
    elif (
        now.found < line * now.records
        and improbability(now.found, now.records, expected) >= CERTAIN
    ):
        return Reason(name, "fill", f"{found_text}, usually on {expected:.0%}")
    if _late(now, line, expected):
        recent = now.recent_found / now.recent_records
        return Reason(
            name,
            "late",
            f"found on {recent:.0%} of the last product pages, usually on {expected:.0%}",
        )
    judged = floor != 0 and tolerances.distinct and name in tolerances.varied
    if judged and usual.fill is None and now.distinct == 1 and now.sampled >= FEW:
        return Reason(name, "distinct", f"the same on all of {now.sampled:,} products")
    wanted = usual.distinct * min(1.0, now.sampled / usual.sampled) if usual.sampled else 0.0
    if (
        floor != 0
        and wanted >= DISTINCT_LEAST
        and now.sampled
        and now.distinct < wanted * tolerances.distinct
    ):
        return Reason(
            name,
            "distinct",
            f"{now.distinct:,} different values on {now.sampled:,} products, usually "
            f"{usual.distinct:,.0f}",
        )
    return None


def judge_products(now: int, history: Sequence[int], tolerances: Tolerances) -> Reason | None:
    """Whether far fewer products were found than usual (the median of recent crawls), or than the
    definition's floor."""
    if now < tolerances.products_floor:
        return Reason(
            None,
            "products_floor",
            f"{now:,} good products, the floor is {tolerances.products_floor:,}",
        )
    usual = usual_product_count(history) or 0.0
    if now < usual * tolerances.products and improbability(now, usual, CAP) >= CERTAIN:
        return Reason(None, "products", f"{now:,} good products, usually {usual:,.0f}")
    return None


def usual_product_count(history: Sequence[int]) -> float | None:
    """The median number of good products of recent crawls, the newest first; None: there are none.
    What the newest one was believed, its successors are, too: the shop has become smaller."""
    usual = median(history[:RECENT_CRAWLS]) if history else None
    if usual is not None and history[0] < usual * Tolerances().products:
        return history[0]
    return usual


def is_rare(usual_fill: float | None, fill: float | None) -> bool:
    """Whether a field of a first crawl is on so few pages that somebody should look."""
    return usual_fill is None and fill is not None and fill < SELDOM


def reasons_repeat(
    reasons: Sequence[frozenset[tuple[str | None, str]]], wanted: int | None
) -> bool:
    """Whether the last `wanted` crawls, this one included, are suspect for the very same reasons:
    so a shop that has changed for good gets through, where its definition allows that."""
    return (
        wanted is not None
        and len(reasons) >= wanted
        and bool(reasons[0])
        and len(set(reasons[:wanted])) == 1
    )


def _few(now: FieldFigures, share: float) -> bool:
    few = now.found < share * now.records
    return few and improbability(now.found, now.records, share) >= CERTAIN


def _late(now: FieldFigures, line: float, expected: float) -> bool:
    """A field that broke shortly before the crawl ended. Pages where it was never shown prove
    nothing, as a part of the catalogue may be without it: values that vanished do."""
    few = now.recent_found < line * now.recent_records
    certain = improbability(now.recent_found, now.recent_records, expected) >= CERTAIN
    return few and certain and now.vanished >= VANISHED_AT_END
