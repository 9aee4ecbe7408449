"""Whether two offers are one product, and why. Pure.

Only codes in fields link by themselves: an equal GTIN, or an equal part number of the same brand.
Titles propose. A contradiction (another size, pack, condition or brand) forbids both.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from rapidfuzz import fuzz

from scraper.plugins.matching.identity.attributes import find_contradiction, has_unstated_variant
from scraper.plugins.matching.identity.codes import is_strong_mpn
from scraper.plugins.matching.identity.offer import OfferIdentity, OfferTerms
from scraper.plugins.matching.identity.words import model_words

GTIN, MPN, TITLE, PERSON = "gtin", "mpn", "title", "person"
# Titles of one product in two shops are at least this alike, of 1, or something else agrees.
TITLE_MIN = 0.3
# Titles of one product whose brand no shop states.
SAME_TITLE = 0.9
# Prices that differ by at most this factor make up for names in two languages.
CLOSE_PRICES = 1.5
# The ratio of two shops' prices for one article, where nothing was learned.
PRICE_FACTOR = 3.0
PRICE_FACTOR_RANGE = 1.5, 5.0


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer as it is compared: `site` is the shop's name."""

    id: int
    site: str
    identity: OfferIdentity
    terms: OfferTerms


@dataclass(frozen=True, slots=True)
class Learned:
    """What earlier links have taught: brands that are one (each to the name that is used for all of
    them), and by which factor prices of one article differ at most."""

    brands: Mapping[str, str]
    price_factor: float = PRICE_FACTOR

    def brand(self, name: str | None) -> str | None:
        return None if name is None else self.brands.get(name, name)


@dataclass(frozen=True, slots=True)
class OfferComparison:
    """How two offers agree: the method by which they are linked (`title`: only proposed), the
    confidence from 0 to 1, and the evidence for people."""

    method: str
    confidence: float
    evidence: dict[str, Any]

    @property
    def contradicts(self) -> bool:
        """True if an attribute says that these are two products."""
        return "contradiction" in self.evidence


def compare(left: Offer, right: Offer, learned: Learned) -> OfferComparison:
    """Returns by which method two offers link, and how sure that is."""
    first, second = left.identity, right.identity
    evidence = _collect_evidence(left, right, learned)
    by_title = _title_confidence(first, second, evidence)
    if "contradiction" in evidence:
        # Shops state attributes wrongly, so a person may still say that it is one product.
        return OfferComparison(TITLE, round(by_title / 2, 3), evidence)
    ratio = evidence.get("price_ratio")
    far = ratio is not None and ratio > learned.price_factor
    same_brand = evidence.get("brand") == "same"
    if first.gtin is not None and evidence.get("gtin") == first.gtin:
        alike = (
            evidence["title"] >= TITLE_MIN or same_brand or evidence.get("mpn") == (first.mpn or "")
        )
        close = ratio is not None and ratio <= CLOSE_PRICES
        if evidence.get("brand") != "differs" and not far and (alike or close):
            return OfferComparison(GTIN, 0.99, evidence)
        return OfferComparison(TITLE, 0.7, evidence)
    if evidence.get("gtin") == "differs":
        return OfferComparison(TITLE, round(evidence["title"] / 3, 3), evidence)
    if first.mpn is not None and first.mpn == second.mpn:
        is_known = same_brand or (
            "brand" not in evidence
            and is_strong_mpn(first.mpn)
            and _agrees_without_brand(first, second, learned, evidence["title"])
        )
        unstated = has_unstated_variant(first.attributes, second.attributes)
        if is_known and not far and (not unstated or (ratio or math.inf) <= CLOSE_PRICES):
            return OfferComparison(MPN, 0.97, evidence)
        return OfferComparison(TITLE, 0.75, evidence)
    return OfferComparison(TITLE, round(by_title, 3), evidence)


def _agrees_without_brand(
    first: OfferIdentity, second: OfferIdentity, learned: Learned, similarity: float
) -> bool:
    """Returns whether two offers with one part number are of one brand, which at most one of them
    states: the other's title names it, or the titles are one. Among many shops, makers have the
    same part numbers."""
    for one, other in ((first, second), (second, first)):
        if one.brand:
            title = "".join(other.words)
            return one.brand in title or (learned.brand(one.brand) or "") in title
    return similarity >= SAME_TITLE


def _collect_evidence(left: Offer, right: Offer, learned: Learned) -> dict[str, Any]:
    """Returns what agrees and what differs: for each code its value, or "differs"."""
    first, second = left.identity, right.identity
    evidence: dict[str, Any] = {"title": round(title_similarity(first, second), 3)}
    contradiction = find_contradiction(first.attributes, second.attributes)
    if contradiction is not None:
        evidence["contradiction"] = contradiction
    brand, other_brand = learned.brand(first.brand), learned.brand(second.brand)
    if brand and other_brand:
        stated = names_brand(second, brand) or names_brand(first, other_brand)
        alike = stated or is_same_brand(brand, other_brand)
        evidence["brand"] = "same" if alike else "differs"
    if first.gtin and second.gtin:
        evidence["gtin"] = first.gtin if first.gtin_key == second.gtin_key else "differs"
    if first.mpn and second.mpn:
        evidence["mpn"] = first.mpn if first.mpn == second.mpn else "differs"
    ratio = price_ratio(left.terms, right.terms)
    if ratio is not None:
        evidence["price_ratio"] = round(ratio, 2)
    return evidence


def is_same_brand(one: str, other: str) -> bool:
    """Returns whether two normalised brands are one: equal, or one begins with the other."""
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= 3 and long.startswith(short))


def names_brand(identity: OfferIdentity, brand: str) -> bool:
    """Returns whether a title begins with a normalised brand, of one word or of several."""
    return len(brand) >= 4 and "".join(identity.words).startswith(brand)


def title_similarity(one: OfferIdentity, other: OfferIdentity) -> float:
    return fuzz.token_set_ratio(" ".join(one.words), " ".join(other.words)) / 100


def price_ratio(one: OfferTerms, other: OfferTerms) -> float | None:
    """Returns by which factor two prices differ, from 1; None if they cannot be compared."""
    if not one.price or not other.price or one.currency != other.currency:
        return None
    ratio = float(one.price / other.price)
    return max(ratio, 1 / ratio)


def _title_confidence(
    one: OfferIdentity, other: OfferIdentity, evidence: Mapping[str, Any]
) -> float:
    """Returns the confidence of offers that share no code: at most 0.9."""
    models = model_words(one.words), model_words(other.words)
    codes = {code for code in (one.mpn, other.mpn) if code}
    shared = bool(models[0] & models[1]) or bool(codes & (models[0] | models[1]))
    confidence = 0.75 * evidence["title"] + (0.15 if shared else 0)
    if not shared and models[0] and models[1]:
        confidence *= 0.6
    if evidence.get("brand") == "differs" or evidence.get("mpn") == "differs":
        confidence *= 0.7
    ratio = evidence.get("price_ratio")
    if ratio is not None and ratio > PRICE_FACTOR:
        confidence *= 0.6
    return float(min(confidence, 0.9))


def learn_price_factor(ratios: Collection[float]) -> float:
    """Returns the factor above which two prices are too far apart for one article: half more than
    the 99th percentile of the ratios of offers with equal GTINs.

    >>> learn_price_factor([1.1] * 200)
    1.65
    """
    if len(ratios) < 50:
        return PRICE_FACTOR
    ordered = sorted(ratios)
    usual = ordered[math.ceil(len(ordered) * 0.99) - 1] * 1.5
    low, high = PRICE_FACTOR_RANGE
    return round(min(max(usual, low), high), 2)


def learn_brands(pairs: Mapping[tuple[str, str], int], own: Mapping[str, int]) -> dict[str, str]:
    """Returns the brands that are one under two names, each to the more frequent name.

    `pairs` counts the GTINs that two shops give to two names, `own` those that they give to one
    name. Two names are one brand if at least 3 GTINs say so, and half of the rarer name's.
    """
    aliases: dict[str, str] = {}
    for (name, alias), count in sorted(pairs.items(), key=lambda item: -item[1]):
        rare, usual = sorted((name, alias), key=lambda brand: (own.get(brand, 0), brand))
        total = own.get(rare, 0) + sum(n for pair, n in pairs.items() if rare in pair)
        if count >= 3 and count * 2 >= total:
            aliases.setdefault(rare, aliases.get(usual, usual))
    return aliases
