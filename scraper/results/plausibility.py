"""Whether what a crawl changed is believed. Pure: numbers in, verdicts out.

A changed value waits until its crawl has ended. Then single values are looked at (`REASONS`; the
statement is `scraper.results.implausible_values.CLASSIFY`), and each field as a whole: how many
products changed it, compared with recent crawls, and of prices by how much. What is not believed
waits for the next crawl to say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scraper.rules.quality import CERTAIN, DOUBTFUL, Reason, Tolerances, improbability

# So many times the price before, or so small a part of it: a decimal point was lost or found.
LEAP = 8
# A page that lacks this share of what its product has, or says something else about this share of
# it, is not the product's.
LACKING, OTHERWISE = 0.5, 0.5
# A value that so many changes to a field have in common, and this share of them, is no product's
# own. Only fields are asked of whose values differ on this share of the products.
SHARED_LEAST, SHARED, OWN_VALUES = 5, 0.2, 0.3
# UTF-8 that was read as Latin-1 or Windows-1252, and what could not be read at all.
MISREAD = "\u00c3[\u0080-\u00bf\u0160-\u2122]|\u00c2[\u0080-\u00bf]|\u00e2\u20ac|\ufffd"
# A field that vanishes together with a switch on this share of the products goes with it.
EXPLAINED = 0.9
# So many products, and this share of those that were compared, make a crawl suspect.
HELD_LEAST, HELD_SHARE = 3, 0.01
# So many of all product pages that were read are not believed before anybody is told.
DOUBTFUL_SHARE = 0.05
# Where nobody knows how many products usually change a field, this share of them is worth a look:
# of prices, and of texts that mostly differ from product to product (another language).
UNKNOWN_USUAL, UNKNOWN_USUAL_TEXTS = 0.3, 0.5
# Two crawls have found the same number of products where these differ by no more than this share.
SAME_NUMBER = 0.1
# Beyond this share of its listings a shop's pages do not come to show each other's products.
REPEATED_SHARE = 0.1
# What changes of a price or a text waits from this part of the tolerated share on, and of a stock
# from all of it.
STEADY = 0.3
# Products are seldom renamed: where more than this share are, it waits, however few that is.
RENAMED = 0.02
# From no more products than this share a field vanishes in one crawl.
VANISHED = 0.05
# The prices of a sale are in the order that they were in; those of other products are not.
IN_ORDER = 0.9
# The sum of all prices stays within this factor.
SUM_FACTOR = 2.0
# So many pages, and this share of them, have another source that agrees.
VOTES_LEAST, AGREED = 5, 0.95
# No tax makes the sum of all prices so many times what it was.
RISE = 1.9
# A list price rises with the price where their sums do so by the same factor, nearly.
FOLLOWS = 0.05
# Prices that change by one factor, but for their last digit, have another currency or tax: so many,
# and this share of all that change, for some change on any day.
ONE_FACTOR, ONE_FACTOR_LEAST, ONE_FACTOR_SHARE, ONE_FACTOR_MOST = 0.005, 5, 0.03, 0.5

# A text that seldom changes, and that so many pages without it do not have in any place, is gone.
SELDOM_CHANGES, GONE_LEAST = 0.05, 3

# What a single value is held for, in words.
REASONS: Mapping[str, str] = {
    "lacking": "the page lacks most of what the product has",
    "other": "the page says something else about most of the product",
    "currency": "another currency",
    "zero": "no price at all",
    "leap": f"{LEAP} times the price or more, or an eighth or less",
    "encoding": "its letters were read in another encoding",
    "shared": "many products got this very value",
    "contradicted": "JSON-LD or another source of the page says otherwise, as it seldom does",
    "beside": "another price of its product is not believed",
    "vanished": "it vanished, and its product is not sold out",
}
OF_PAGES = ("lacking", "other")


def why_held(reason: str) -> str:
    """What a value is held for, in words: by itself, or with its field."""
    return REASONS.get(reason, "the field is not believed")


@dataclass(frozen=True, slots=True)
class Changes:
    """What a crawl changed of one field, among the `compared` products that were known before.
    `held`: values that are not believed singly, and not counted with the others. Of prices also the
    sums before and after, how far the new ones follow the old (`order`, -1 to 1) and how many
    changed by the factor that most changed by (`alike`). `agreed`: what else the pages say of the
    field says the same."""

    compared: int
    changed: int = 0
    vanished: int = 0
    held: int = 0
    before: float = 0.0
    after: float = 0.0
    order: float | None = None
    alike: int = 0
    agreed: bool = False


# By another source of a field (`jsonld`, `microdata`, `meta`), on how many pages it agrees with
# what was read, and on how many not.
Votes = Mapping[str, tuple[int, int]]


def sources_agree(*crawls: Votes) -> bool:
    """Whether what else pages say of a field says the same, nearly always."""
    pairs = [pair for votes in crawls for pair in votes.values()]
    yes, no = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return yes >= VOTES_LEAST and yes >= AGREED * (yes + no)


def judge_changes(
    name: str, now: Changes, usual: float | None, tolerances: Tolerances, *, price: bool
) -> Reason | None:
    """Whether what changed of a field is not believed as a whole. `usual`: the largest share of
    products that changed it in a recent crawl; None: nobody knows.

    >>> judge_changes("name", Changes(500, changed=90), 0.01, Tolerances(), price=False).what
    'changed'
    >>> judge_changes("price", Changes(500, 400, before=9e4, after=7e4, order=0.97, alike=9),
    ...               0.01, Tolerances(), price=True)
    """
    what = find_doubt(name, now, usual, tolerances, CERTAIN, price=price)
    if what == "vanished":
        text = f"vanished from {now.vanished:,} of {now.compared:,} products"
        return Reason(name, what, text)
    if what == "changed":
        usually = "" if usual is None else f", usually on {usual:.0%} at most"
        text = f"changed on {now.changed:,} of {now.compared:,} products{usually}"
        return Reason(name, what, text)
    if tolerances.changed < 1 and held_is_odd(now.held, now.compared):
        text = f"{now.held:,} of {now.compared:,} products got values that are not believed"
        return Reason(name, "implausible", text)
    return None


def find_doubt(
    name: str,
    now: Changes,
    usual: float | None,
    tolerances: Tolerances,
    evidence: float = DOUBTFUL,
    *,
    price: bool,
    text: bool = False,
    steady: bool = False,
) -> Literal["changed", "vanished"] | None:
    """Which changes of a field wait for a second crawl. Weaker evidence does than for a suspect
    crawl. `text`: the field is one, and mostly differs from product to product; it is no reason to
    suspect a crawl, since some change every day. `steady`: it is no stock, which changes everywhere
    any day."""
    tolerated = tolerances.changed
    if tolerated >= 1 or not now.compared:
        return None
    if steady and evidence < CERTAIN:
        tolerated *= STEADY
    lost = min(tolerated, VANISHED)
    if may_not_vanish(name, tolerances) and _is_odd(now.vanished, now.compared, lost, evidence):
        return "vanished"
    line = 1.5 * (usual or 0.0) + tolerated
    if usual is None:
        line = UNKNOWN_USUAL if price else UNKNOWN_USUAL_TEXTS if text else 1.0
    if text and usual is not None and evidence < CERTAIN:
        few = (1.5 * usual + RENAMED) * now.compared
        if now.changed >= HELD_LEAST and now.changed > few:
            return "changed"
    if _is_odd(now.changed, now.compared, min(line, 1.0), evidence):
        return None if price and (_is_sale(now) or _is_rise(now)) else "changed"
    return "changed" if price and _has_one_factor(now) and not _is_rise(now) else None


@dataclass(frozen=True, slots=True)
class DoubtfulPages:
    """Product pages of a crawl that were not believed: so many in all, `known` of them of products
    that are stored. `why` is what most of them say, and `example` one of these."""

    pages: int = 0
    known: int = 0
    why: str = ""
    example: str = ""


def judge_pages(contrary: int, compared: int, doubtful: DoubtfulPages, read: int) -> Reason | None:
    """Whether so many pages that are not their products' make a crawl suspect: of `compared` pages
    of known products those that say something else (`contrary`) and those that were not believed,
    and of all that were read the doubtful ones, for a new product may have little to show."""
    pages = contrary + doubtful.pages
    few = held_is_odd(doubtful.pages, read) and doubtful.pages >= DOUBTFUL_SHARE * read
    if not few and not held_is_odd(contrary + doubtful.known, compared):
        return None
    text = f"{pages:,} of {max(read, compared):,} product pages are not believed"
    if doubtful.pages > contrary:
        return Reason(None, "pages", f"{text}: {doubtful.why}, such as {doubtful.example}")
    return Reason(None, "pages", f"{text}: they lack or contradict most of what is known")


def judge_ids(others: int, read: int) -> Reason | None:
    """Whether so many pages that were read give another product than before, one that nobody knows,
    that the shop has rather changed its ids."""
    if not held_is_odd(others, read):
        return None
    text = f"{others:,} of {read:,} product pages were another product's before"
    return Reason(None, "pages", text)


def judge_strayed(strayed: int, usual: int, read: int) -> Reason | None:
    """Whether so many more pages than last time give another known product than their own that
    they are rather mixed up."""
    if not held_is_odd(strayed - usual, read):
        return None
    return Reason(None, "pages", f"{strayed:,} of {read:,} product pages give another product")


def judge_misses(missed: int, listed: int, usual: float) -> Reason | None:
    """Whether so many products are missed for the first time that a listing is rather not whole.
    `usual`: the largest share in a recent crawl."""
    known = listed + missed
    if missed < HELD_LEAST or not _is_odd(missed, known, VANISHED + 1.5 * usual, DOUBTFUL):
        return None
    text = f"{missed:,} of {known:,} products are not listed any more, usually {usual:.0%} at most"
    return Reason(None, "missed", text)


@dataclass(frozen=True, slots=True)
class ShownTwice:
    """Of so many listings that name two products or more, how many show the very products that
    another one shows, such as the one at `example`."""

    listings: int = 0
    repeated: int = 0
    example: str | None = None


def judge_repeats(missed: int, now: ShownTwice, usual: int | None) -> Reason | None:
    """Whether products were missed since listings show what others show, which they did not
    before: pages that do not turn. `usual`: how many did in recent crawls."""
    if not missed or usual is None or now.repeated - usual <= REPEATED_SHARE * now.listings:
        return None
    text = (
        f"{now.repeated:,} of {now.listings:,} listing pages show what another one shows, such as "
        f"{now.example}; usually {usual:,} at most do"
    )
    return Reason(None, "listings", text)


def says_the_same(products: int, before: int) -> bool:
    """Whether a crawl has as many good products as one before that was suspect for their number."""
    return abs(products - before) <= SAME_NUMBER * before


def may_not_vanish(name: str, tolerances: Tolerances) -> bool:
    """Whether a value of the field that vanishes is worth a second look."""
    return tolerances.fill > 0 and tolerances.floors.get(name) != 0


def held_is_odd(held: int, compared: int) -> bool:
    """Whether so many values that are not believed make a crawl suspect."""
    return held >= HELD_LEAST and held >= HELD_SHARE * compared


def _is_odd(number: int, compared: int, line: float, evidence: float) -> bool:
    """Whether more than that share can hardly be an accident."""
    others = compared - number
    return number > line * compared and improbability(others, compared, 1 - line) >= evidence


def _is_sale(now: Changes) -> bool:
    """A sale, or a new price list: the dear products stay the dear ones, the sum is about what it
    was, and the prices do not all change by one factor."""
    in_order = now.order is not None and now.order >= IN_ORDER
    in_sum = now.before / SUM_FACTOR <= now.after <= now.before * SUM_FACTOR
    return in_order and in_sum and not _has_one_factor(now)


def _is_rise(now: Changes) -> bool:
    """A price list that is so much higher, in the order that it had, is no tax; it is believed
    where the pages' other sources say so, too."""
    in_order = now.order is not None and now.order >= IN_ORDER
    return now.agreed and in_order and now.after >= RISE * now.before > 0


def rise_factors(prices: Sequence[Changes]) -> list[float]:
    """By how much prices rose whose rise is believed."""
    return [price.after / price.before for price in prices if _is_rise(price)]


def follows_rise(now: Changes, factors: Sequence[float]) -> bool:
    """Whether a price of which no other source speaks, a list price, rose with another one."""
    factor = now.after / now.before if now.before else 0.0
    return any(abs(factor / other - 1) <= FOLLOWS for other in factors)


def _has_one_factor(now: Changes) -> bool:
    """Another currency, with or without tax, the price of the smallest size."""
    many = now.alike >= max(ONE_FACTOR_LEAST, ONE_FACTOR_SHARE * now.compared)
    return many and now.alike >= ONE_FACTOR_MOST * now.changed
