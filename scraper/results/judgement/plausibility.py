"""Decides whether what a crawl changed is plausible. Pure: numbers in, verdicts out.

A changed value waits until its crawl has ended. Then single values are checked (`REASONS`; the
statement is `results/judgement/classify_held_values.sql`), and each field as a whole: how many
products changed it, compared with recent crawls, and by how much prices moved. What is not believed
waits for the next crawl to say the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from scraper.rules.quality import CERTAIN, DOUBTFUL, Reason, Tolerances, improbability

# A price that is multiplied or divided by this has lost or gained a decimal point.
LEAP = 8
# A page that lacks this share of its product's fields, or changes this share, is not the product's.
LACKING, OTHERWISE = 0.5, 0.5
# A value that this number and share of a field's changes have in common is not a product's own. It
# is checked for fields whose values differ on the third share of the products.
SHARED_LEAST, SHARED, OWN_VALUES = 5, 0.2, 0.3
# This many different values do not become one by themselves.
MERGED = 4
# UTF-8 that was read as Latin-1 or Windows-1252, and bytes that could not be decoded.
MISREAD = "\u00c3[\u0080-\u00bf\u0160-\u2122]|\u00c2[\u0080-\u00bf]|\u00e2\u20ac|\ufffd"
# A field that vanishes together with a switch on this share of the products goes with it.
EXPLAINED = 0.9
# At least this many products, and this share of those that were compared, make a crawl suspect.
HELD_LEAST, HELD_SHARE = 3, 0.01
# The share of rejected product pages, of all that were read, that triggers an alert.
DOUBTFUL_SHARE = 0.05
# If the usual share of changed products is unknown, a larger share than this is checked: of prices,
# and of texts that mostly differ from product to product (another language).
UNKNOWN_USUAL, UNKNOWN_USUAL_TEXTS = 0.3, 0.5
# Two crawls have found the same number of products if these differ by at most this share.
SAME_NUMBER = 0.1
# More listings than this share do not start to show each other's products by accident.
REPEATED_SHARE = 0.1
# Changed prices and texts wait from this part of the tolerated share on, stocks from the whole
# share.
STEADY = 0.3
# Products are seldom renamed: a larger share than this waits, however small the number.
RENAMED = 0.02
# A field vanishes from at most this share of the products in one crawl.
VANISHED = 0.05
# In a sale, prices keep their order; the prices of other products do not.
IN_ORDER = 0.9
# In a sale, the sum of all prices stays within this factor.
SUM_FACTOR = 2.0
# Another source confirms a field if it is on this number of pages, and agrees on this share.
VOTES_LEAST, AGREED = 5, 0.95
# A tax never multiplies the sum of all prices by this.
RISE = 1.9
# A list price rises with the price if their sums rise by the same factor, within this share.
FOLLOWS = 0.05
# Prices that change by one factor, except for their last digit, have another currency or tax. It
# takes this number, this share of all products, and this share of the changes, since some prices
# change on any day.
ONE_FACTOR = 0.005
ONE_FACTOR_LEAST = 5
ONE_FACTOR_SHARE = 0.03
ONE_FACTOR_MOST = 0.5

# The shop no longer shows a text that seldom changes if this many pages do not have it anywhere.
SELDOM_CHANGES, GONE_LEAST = 0.05, 3

# Why a single value is held, in words.
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
    """Returns why a value is held, in words: by itself, or with its field."""
    return REASONS.get(reason, "the field is not believed")


@dataclass(frozen=True, slots=True)
class Changes:
    """What a crawl changed of one field, on the `compared` products that were known before.

    `held` counts values that are implausible by themselves; they are not in the other counts. For
    prices, `before` and `after` are sums, `order` is the correlation of new and old prices (-1 to
    1), and `alike` counts those that changed by the most frequent `factor`. `merged` is the largest
    number of different values that became one. `agreed` means that other sources of the pages
    confirm the field.
    """

    compared: int
    changed: int = 0
    vanished: int = 0
    held: int = 0
    before: float = 0.0
    after: float = 0.0
    order: float | None = None
    alike: int = 0
    factor: float = 1.0
    merged: int = 0
    agreed: bool = False


# For each other source of a field (`jsonld`, `microdata`, `meta`): on how many pages it agrees with
# the extracted value, and on how many it does not.
Votes = Mapping[str, tuple[int, int]]


def sources_agree(*crawls: Votes) -> bool:
    """Returns True if other sources of a field nearly always agree with it."""
    pairs = [pair for votes in crawls for pair in votes.values()]
    yes, no = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return yes >= VOTES_LEAST and yes >= AGREED * (yes + no)


def judge_changes(
    name: str, now: Changes, usual: float | None, tolerances: Tolerances, *, price: bool
) -> Reason | None:
    """Returns why a field's changes as a whole make a crawl suspect, or None. `usual` is the
    largest share of products that changed it in a recent crawl, or None if that is unknown.

    >>> judge_changes("name", Changes(500, changed=90), 0.01, Tolerances(), price=False).what
    'changed'
    >>> judge_changes("price", Changes(500, 400, before=9e4, after=7e4, order=0.97, alike=9),
    ...               0.01, Tolerances(), price=True)
    """
    change = find_doubt(name, now, usual, tolerances, CERTAIN, price=price)
    if change == "vanished":
        text = f"vanished from {now.vanished:,} of {now.compared:,} products"
        return Reason(name, change, text)
    if change == "changed":
        few = usual is None or now.changed <= usual * now.compared
        usually = "" if few else f", usually on {usual:.0%} at most"
        text = f"changed on {now.changed:,} of {now.compared:,} products{usually}"
        return Reason(name, change, text)
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
    """Returns which changes of a field wait for a second crawl. That takes weaker evidence than a
    suspect crawl. `text` marks texts that mostly differ from product to product; `steady` marks
    fields that are not stocks, which change everywhere on any day."""
    tolerated = tolerances.changed
    if tolerated >= 1 or not now.compared:
        return None
    if steady and evidence < CERTAIN:
        tolerated *= STEADY
    lost_max = min(tolerated, VANISHED)
    if may_not_vanish(name, tolerances) and _is_odd(now.vanished, now.compared, lost_max, evidence):
        return "vanished"
    if usual is not None:
        changed_max = 1.5 * usual + tolerated
    elif price:
        changed_max = UNKNOWN_USUAL
    elif text:
        changed_max = UNKNOWN_USUAL_TEXTS
    else:
        changed_max = 1.0
    if text and usual is not None and evidence < CERTAIN:
        renamed_max = (1.5 * usual + RENAMED) * now.compared
        if now.changed >= HELD_LEAST and now.changed > renamed_max:
            return "changed"
    if steady and not price and now.merged >= MERGED and evidence < CERTAIN:
        return "changed"
    if _is_odd(now.changed, now.compared, min(changed_max, 1.0), evidence):
        return None if price and (_is_sale(now) or _is_rise(now)) else "changed"
    return "changed" if price and has_one_factor(now) and not _is_rise(now) else None


@dataclass(frozen=True, slots=True)
class DoubtfulPages:
    """Product pages of a crawl that were not believed: how many, how many `of_known` products, the
    most frequent reason, and an example."""

    pages: int = 0
    of_known: int = 0
    why: str = ""
    example: str = ""


def judge_pages(contrary: int, compared: int, doubtful: DoubtfulPages, read: int) -> Reason | None:
    """Returns why pages that are not their products' make a crawl suspect, or None.

    Of `compared` pages of known products, it counts those that contradict the product (`contrary`)
    and those that were not believed. The doubtful ones also count against all pages that were
    `read`, since a new product may have little to show.
    """
    pages = contrary + doubtful.pages
    few = held_is_odd(doubtful.pages, read) and doubtful.pages >= DOUBTFUL_SHARE * read
    if not few and not held_is_odd(contrary + doubtful.of_known, compared):
        return None
    text = f"{pages:,} of {max(read, compared):,} product pages are not believed"
    if doubtful.pages > contrary:
        return Reason(None, "pages", f"{text}: {doubtful.why}, such as {doubtful.example}")
    return Reason(None, "pages", f"{text}: they lack or contradict most of what is known")


def judge_ids(others: int, read: int) -> Reason | None:
    """Returns why the shop seems to have changed its ids, or None: `others` of the pages that were
    read give another product than before, which is not known yet."""
    if not held_is_odd(others, read):
        return None
    text = f"{others:,} of {read:,} product pages were another product's before"
    return Reason(None, "pages", text)


def judge_strayed(strayed: int, usual: int, read: int) -> Reason | None:
    """Returns why the pages seem to be mixed up, or None: more of them than last time give another
    known product than their own."""
    if not held_is_odd(strayed - usual, read):
        return None
    return Reason(None, "pages", f"{strayed:,} of {read:,} product pages give another product")


def judge_misses(missed: int, listed: int, usual: float) -> Reason | None:
    """Returns why the listings seem incomplete, or None: too many products are missed for the first
    time. `usual` is the largest share in a recent crawl."""
    expected = listed + missed
    if missed < HELD_LEAST or not _is_odd(missed, expected, VANISHED + 1.5 * usual, DOUBTFUL):
        return None
    text = f"{missed:,} of {expected:,} products are no longer listed, usually {usual:.0%} at most"
    return Reason(None, "missed", text)


@dataclass(frozen=True, slots=True)
class ShownTwice:
    """How many listings name two products or more, and how many of them repeat the products of
    another one, such as the one at `example`."""

    listings: int = 0
    repeated: int = 0
    example: str | None = None


def judge_repeats(missed: int, now: ShownTwice, usual: int | None) -> Reason | None:
    """Returns why the listings seem not to turn their pages, or None: products are missed, and more
    listings than in recent crawls (`usual`) repeat another one."""
    if not missed or usual is None or now.repeated - usual <= REPEATED_SHARE * now.listings:
        return None
    text = (
        f"{now.repeated:,} of {now.listings:,} listing pages show what another one shows, such as "
        f"{now.example}; usually {usual:,} at most do"
    )
    return Reason(None, "listings", text)


def says_the_same(products: int, before: int) -> bool:
    """Returns True if a crawl has as many good products as an earlier one that was suspect for
    their number."""
    return abs(products - before) <= SAME_NUMBER * before


def may_not_vanish(name: str, tolerances: Tolerances) -> bool:
    """Returns True if a value of the field must not vanish without a second look."""
    return tolerances.fill > 0 and tolerances.floors.get(name) != 0


def held_is_odd(held: int, compared: int) -> bool:
    """Returns True if that many values that are not believed make a crawl suspect."""
    return held >= HELD_LEAST and held >= HELD_SHARE * compared


def _is_odd(number: int, compared: int, line: float, evidence: float) -> bool:
    """Returns True if the number exceeds that share, and hardly by accident."""
    others = compared - number
    return number > line * compared and improbability(others, compared, 1 - line) >= evidence


def _is_sale(now: Changes) -> bool:
    """Returns True for a sale or a new price list: expensive products stay the expensive ones, the
    sum stays similar, and the prices do not all change by one factor."""
    return is_in_order(now) and not has_one_factor(now)


def is_in_order(now: Changes) -> bool:
    """Returns True if the prices keep their order, and roughly their sum."""
    in_order = now.order is not None and now.order >= IN_ORDER
    return in_order and now.before / SUM_FACTOR <= now.after <= now.before * SUM_FACTOR


def _is_rise(now: Changes) -> bool:
    """Returns True for a price list that is too much higher for a tax, in the same order; other
    sources of the pages must confirm it."""
    in_order = now.order is not None and now.order >= IN_ORDER
    return now.agreed and in_order and now.after >= RISE * now.before > 0


def rise_factors(prices: Sequence[Changes]) -> list[float]:
    """Returns the factors by which prices rose, if the rise is believed."""
    return [price.after / price.before for price in prices if _is_rise(price)]


def follows_rise(now: Changes, factors: Sequence[float]) -> bool:
    """Returns True if a price without other sources, a list price, rose with another price."""
    factor = now.after / now.before if now.before else 0.0
    return any(abs(factor / other - 1) <= FOLLOWS for other in factors)


def has_one_factor(now: Changes) -> bool:
    """Returns True for one factor on many prices: another currency, with or without tax, the price
    of the smallest size."""
    enough = now.alike >= max(ONE_FACTOR_LEAST, ONE_FACTOR_SHARE * now.compared)
    return enough and now.alike >= ONE_FACTOR_MOST * now.changed
