"""Judges whether a crawl's data can be trusted, by its fields' figures and those of recent crawls.
Pure: numbers in, verdicts out.

Two questions are asked about the same numbers when a crawl has ended. Do values that vanished stay
held back (`is_broken`)? Weak evidence suffices, since the next crawl releases a value that was held
back too long. Is the crawl suspect (`judge_field`)? That needs strong evidence, since it alerts
people.

The evidence is one number: how improbable so few values would be if nothing had changed, as the
Chernoff bound of the binomial distribution, in nats. It is exact where no value is found, and never
too large elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

# A week of a daily crawl: one odd crawl does not move the median.
RECENT_CRAWLS = 7
# Rates of fewer records say little.
FEW = 20
# A crawl that has read this share of its good product pages represents the whole.
WHOLE = 0.5
# No field is expected on more pages: one page without it proves nothing.
CAP = 0.99
# One in twenty is enough to hold a value back.
DOUBTFUL = math.log(20)
# One in a thousand is enough to alert people.
CERTAIN = math.log(1000)
# Where fewer different values are expected, none is missed.
DISTINCT_LEAST = 5.0
# Without a history, a required field is expected on this share of the product pages, and a field on
# fewer than the second share is worth a look.
REQUIRED, SELDOM = 0.8, 0.5
# A field that no crawl has had before, and none of this many product pages has, is misread.
NEVER_LEAST = 5
# Reasons for a listing page that names fewer products than it should begin with this.
NOT_FULL = "it names"
# This many vanished values mean that a field broke late in the crawl, when its share of the whole
# crawl does not show it yet.
VANISHED_AT_END = 10

ReasonKind = Literal[
    "never", "fill", "floor", "late", "mistyped", "distinct", "products", "products_floor",
    "changed", "vanished", "implausible", "pages", "missed", "listings", "coverage",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far a crawl may differ from its predecessors, as the site definition says.

    All are shares but `products_floor`, a number of products. `floors` are fill rates by field;
    `required` names the fields that every product page has, `varied` those that differ between
    products, `optional` those that are read where a shop has them.
    """

    products: float = 0.5
    fill: float = 0.8
    mistyped: float = 0.1
    distinct: float = 0.25
    changed: float = 0.1
    products_floor: int = 0
    floors: Mapping[str, float] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    varied: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class FieldFigures:
    """One field in one crawl, in numbers of products.

    `records` were read, `found` had the field, `mistyped` had something else in its place;
    `distinct` values were among the `sampled` stored ones; `vanished` products had a value before
    and not now. The recent figures are of the last fifty records or so, older ones fading. Of the
    `compared` products that were known before, `changed` got another value.
    """

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

    @property
    def mistyped_share(self) -> float:
        return self.mistyped / self.records if self.records else 0.0


@dataclass(frozen=True, slots=True)
class UsualFigures:
    """A field in recent crawls: medians, but for `changed`, the largest share of products that got
    another value. `fill` or `changed` None: unknown."""

    fill: float | None = None
    mistyped: float = 0.0
    distinct: float = 0.0
    sampled: float = 0.0
    changed: float | None = None

    @property
    def own_share(self) -> float:
        """The share of values that only one product has, roughly."""
        return self.distinct / self.sampled if self.sampled else 0.0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a crawl is suspect, in a sentence for people. `field` None: the crawl as a whole. With
    the level `notice` it only says what is new: nothing is withheld."""

    field: str | None
    what: ReasonKind
    text: str
    level: Literal["suspect", "notice"] = "suspect"


def improbability(found: float, records: float, expected: float) -> float:
    """Returns how improbable it is, in nats, to find at most `found` of `records` where `expected`
    is the share; 0 where that is not unusual.

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
    """Returns the earlier crawls to compare a crawl with. `shares` are the shares of good product
    pages that earlier crawls read, by crawl; `share` is that of the crawl itself.

    Where most pages were fresh or answered 304, a crawl reads what has changed or is new, which is
    not a sample of the whole: a field that new products lack is rare in it, and one that moves with
    the price is common. So whole crawls are compared with whole ones, and partial with partial
    ones, where there are any.

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
    """Returns the medians of recent crawls; `history` has the newest first. Crawls that read hardly
    any record count only without larger ones."""
    chosen = [figures for figures in history if figures.records >= FEW][:RECENT_CRAWLS] or list(
        [figures for figures in history if figures.records][:RECENT_CRAWLS]
    )
    if not chosen:
        return UsualFigures()
    sampled = [figures for figures in chosen if figures.sampled] or [FieldFigures(0, 0)]
    fill = median(figures.fill for figures in chosen)
    # Sold-out products may lack a field. Once such a crawl was accepted, the next ones are, too.
    if chosen[0].fill < fill * Tolerances().fill:
        fill = chosen[0].fill
    return UsualFigures(
        fill=fill,
        mistyped=median(figures.mistyped_share for figures in chosen),
        distinct=median(figures.distinct for figures in sampled),
        sampled=median(figures.sampled for figures in sampled),
        changed=max(
            (figures.changed / figures.compared for figures in chosen if figures.compared >= FEW),
            default=None,
        ),
    )


def fill_threshold(name: str, usual: UsualFigures, tolerances: Tolerances) -> float:
    """Returns the fill rate below which the field is broken: its floor, or the tolerated share of
    the usual rate. 0: it never is."""
    floor = tolerances.floors.get(name)
    return floor if floor is not None else (usual.fill or 0.0) * tolerances.fill


def is_broken(now: FieldFigures, threshold: float, expected: float) -> bool:
    """Returns whether values of the field that vanished stay held back. Weaker evidence suffices
    than for a verdict: a value that is wrongly held back is released by the product's next good
    reading."""
    few = (
        now.found < threshold * now.records
        and improbability(now.found, now.records, expected) >= DOUBTFUL
    )
    return few or _broke_late(now, threshold, expected)


@dataclass(frozen=True, slots=True)
class _FieldCase:
    """A field, and what it is compared with."""

    name: str
    now: FieldFigures
    usual: UsualFigures
    tolerances: Tolerances

    @property
    def floor(self) -> float | None:
        """The definition's floor; 0 means that the field may be missing everywhere."""
        return self.tolerances.floors.get(self.name)

    @property
    def threshold(self) -> float:
        return fill_threshold(self.name, self.usual, self.tolerances)

    @property
    def expected(self) -> float:
        return self.usual.fill or 0.0

    def make_reason(self, kind: ReasonKind, text: str) -> Reason:
        return Reason(self.name, kind, text)

    def make_fill_reason(self, kind: ReasonKind, compared: str) -> Reason:
        now = self.now
        return self.make_reason(
            kind,
            f"found on {now.found:,} of {now.records:,} product pages ({now.fill:.0%}), {compared}",
        )


def judge_field(
    name: str, now: FieldFigures, usual: UsualFigures, tolerances: Tolerances
) -> Reason | None:
    """Returns the field's breach, or None: the first of `_CHECKS` that fails, so the one that says
    most."""
    case = _FieldCase(name, now, usual, tolerances)
    return next((reason for check in _CHECKS if (reason := check(case))), None)


def _check_types(case: _FieldCase) -> Reason | None:
    now, usual = case.now, case.usual
    tolerated = usual.mistyped + case.tolerances.mistyped
    if case.floor == 0 or now.mistyped_share <= tolerated:
        return None
    if improbability(now.records - now.mistyped, now.records, 1 - tolerated) < CERTAIN:
        return None
    usually = f", usually on {usual.mistyped:.0%}" if usual.fill is not None else ""
    text = f"not of its type on {now.mistyped:,} of {now.records:,} product pages{usually}"
    return case.make_reason("mistyped", text)


def _check_floor(case: _FieldCase) -> Reason | None:
    """A few records suffice only if they leave no doubt."""
    now, floor = case.now, case.floor
    if floor is None or not now.records or now.fill >= floor:
        return None
    if now.records < FEW and improbability(now.found, now.records, floor) < CERTAIN:
        return None
    return case.make_fill_reason("floor", f"its floor is {floor:.0%}")


def _check_required(case: _FieldCase) -> Reason | None:
    """Judges a required field without a history."""
    if case.floor is not None or case.usual.fill is not None:
        return None
    if case.name not in case.tolerances.required or not _is_fill_below(case.now, REQUIRED):
        return None
    return case.make_fill_reason("fill", "and it is required")


def _check_ever_found(case: _FieldCase) -> Reason | None:
    """Judges a field that no crawl has had."""
    now, tolerances = case.now, case.tolerances
    if case.floor is not None or case.usual.fill is not None or not tolerances.fill:
        return None
    if case.name in tolerances.optional:
        return None
    if now.found or now.records < NEVER_LEAST:
        return None
    text = f"found on none of {now.records:,} product pages (if no product has it: `floor: 0`)"
    return case.make_reason("never", text)


def _check_fill(case: _FieldCase) -> Reason | None:
    """Judges a field that products usually have."""
    now, expected = case.now, case.expected
    if case.floor is not None or now.found >= case.threshold * now.records:
        return None
    if improbability(now.found, now.records, expected) < CERTAIN:
        return None
    return case.make_fill_reason("fill", f"usually on {expected:.0%}")


def _check_end(case: _FieldCase) -> Reason | None:
    """Judges a field that broke shortly before the crawl ended."""
    now, expected = case.now, case.expected
    if not _broke_late(now, case.threshold, expected):
        return None
    recent = now.recent_found / now.recent_records
    text = f"found on {recent:.0%} of the last product pages, usually on {expected:.0%}"
    return case.make_reason("late", text)


def _check_sameness(case: _FieldCase) -> Reason | None:
    """Judges a field that should vary, without a history."""
    now, tolerances = case.now, case.tolerances
    if case.floor == 0 or case.usual.fill is not None or not tolerances.distinct:
        return None
    if case.name not in tolerances.varied or now.distinct != 1 or now.sampled < FEW:
        return None
    return case.make_reason("distinct", f"the same on all of {now.sampled:,} products")


def _check_variety(case: _FieldCase) -> Reason | None:
    """Judges a field that usually has many different values."""
    now, usual = case.now, case.usual
    if case.floor == 0 or not now.sampled or not usual.sampled:
        return None
    wanted = usual.distinct * min(1.0, now.sampled / usual.sampled)
    if wanted < DISTINCT_LEAST or now.distinct >= wanted * case.tolerances.distinct:
        return None
    text = f"{now.distinct:,} different values on {now.sampled:,} products, usually "
    return case.make_reason("distinct", f"{text}{usual.distinct:,.0f}")


_CHECKS: tuple[Callable[[_FieldCase], Reason | None], ...] = (
    _check_types,
    _check_floor,
    _check_required,
    _check_ever_found,
    _check_fill,
    _check_end,
    _check_sameness,
    _check_variety,
)


def judge_products(now: int, history: Sequence[int], tolerances: Tolerances) -> Reason | None:
    """Returns a reason where the crawl found far fewer good products than recent crawls, or than
    the definition's floor. `history` has the newest first."""
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
    """Returns the median number of good products of recent crawls, the newest first; None without
    any. Once a small crawl was accepted, the next ones are, too: the shop has become smaller."""
    usual = median(history[:RECENT_CRAWLS]) if history else None
    if usual is not None and history[0] < usual * Tolerances().products:
        return history[0]
    return usual


def is_rare(usual_fill: float | None, fill: float | None) -> bool:
    """Returns whether a field of a first crawl is on so few pages that its definition is worth a
    look."""
    return usual_fill is None and fill is not None and fill < SELDOM


def reasons_repeat(
    reasons: Sequence[frozenset[tuple[str | None, str]]], wanted: int | None
) -> bool:
    """Returns whether the last `wanted` crawls, this one included, are suspect for the same
    reasons: so a shop that has changed for good gets through, where its definition allows that."""
    return (
        wanted is not None
        and len(reasons) >= wanted
        and bool(reasons[0])
        and len(set(reasons[:wanted])) == 1
    )


def _is_fill_below(now: FieldFigures, share: float) -> bool:
    few = now.found < share * now.records
    return few and improbability(now.found, now.records, share) >= CERTAIN


def _broke_late(now: FieldFigures, threshold: float, expected: float) -> bool:
    """Returns whether the field broke shortly before the crawl ended. Pages that never showed it
    prove nothing, as a part of the catalogue may be without it; vanished values do."""
    few = now.recent_found < threshold * now.recent_records
    certain = improbability(now.recent_found, now.recent_records, expected) >= CERTAIN
    return few and certain and now.vanished >= VANISHED_AT_END
