"""Which of some offers are one article. Pure.

A code that a shop gives to several of its products identifies none of them. Offers join an article
only if they contradict none of its offers, so that an article never holds two variants.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from scraper.plugins.matching.linking.evidence import (
    GTIN,
    MPN,
    PERSON,
    Learned,
    Offer,
    OfferComparison,
    compare,
)

Pair = tuple[int, int]


class OfferLink(NamedTuple):
    """Two offers that are one product. `left` is the lower id."""

    left: int
    right: int
    comparison: OfferComparison


class Clusters(NamedTuple):
    """The article of each offer, by the offer's id, and the links that hold articles together. An
    article's id is the lowest id among its offers."""

    articles: dict[int, int]
    links: list[OfferLink]


def order_pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def cluster_offers(
    offers: Sequence[Offer],
    learned: Learned,
    confirmed: Collection[Pair] = (),
    refused: Collection[Pair] = (),
) -> Clusters:
    """Groups offers into articles: first those that a person has confirmed, then those with equal
    GTINs, then those with equal part numbers. Pairs are (lower id, higher id)."""
    grouping = _Grouping(offers, learned, refused)
    links = [
        OfferLink(left, right, OfferComparison(PERSON, 1.0, {}))
        for left, right in sorted(confirmed)
        if left in grouping.by_id and right in grouping.by_id
    ]
    for link in links:
        grouping.join(link.left, link.right)
    for method, group in _code_groups(offers):
        for place, offer in enumerate(group):
            new_link = grouping.link_to_first(offer, group[:place], method)
            links += [] if new_link is None else [new_link]
    return Clusters(grouping.article, links)


class _Grouping:
    """The articles of some offers while they are grouped."""

    def __init__(
        self, offers: Sequence[Offer], learned: Learned, refused: Collection[Pair]
    ) -> None:
        self.by_id = {offer.id: offer for offer in offers}
        self.article = {id_: id_ for id_ in self.by_id}
        self._members = {id_: [id_] for id_ in self.by_id}
        self._learned = learned
        self._forbidden: dict[int, set[int]] = defaultdict(set)
        for left, right in refused:
            self._forbidden[left].add(right)
            self._forbidden[right].add(left)

    def join(self, one: int, other: int) -> None:
        keep, drop = order_pair(self.article[one], self.article[other])
        if keep != drop:
            for id_ in self._members[drop]:
                self.article[id_] = keep
            self._members[keep] += self._members.pop(drop)

    def link_to_first(self, offer: Offer, others: Sequence[Offer], method: str) -> OfferLink | None:
        """Joins an offer to the first article that it agrees with by a method. Returns the link;
        None if there is none, or the offer is in that article already."""
        for other in others:
            if self.article[offer.id] == self.article[other.id]:
                return None
            comparison = compare(offer, other, self._learned)
            if comparison.method == method and self._may_join(offer.id, other.id, method):
                self.join(offer.id, other.id)
                return OfferLink(*order_pair(offer.id, other.id), comparison)
        return None

    def _may_join(self, one: int, other: int, method: str) -> bool:
        """Returns whether no offer of one's article contradicts one of the other's, and no person
        refused a pair of them. A part number joins no two brands or GTINs either."""
        return not any(
            right in self._forbidden.get(left, ()) or self._differs(left, right, method)
            for left in self._members[self.article[one]]
            for right in self._members[self.article[other]]
        )

    def _differs(self, left: int, right: int, method: str) -> bool:
        comparison = compare(self.by_id[left], self.by_id[right], self._learned)
        codes = {comparison.evidence.get(key) for key in ("brand", "gtin")}
        return comparison.contradicts or (method == MPN and "differs" in codes)


def _code_groups(offers: Iterable[Offer]) -> Iterable[tuple[str, list[Offer]]]:
    """Yields the offers with one code, in the order of their ids: GTINs first."""
    ordered = sorted(offers, key=lambda offer: offer.id)
    for method in (GTIN, MPN):
        groups: dict[str, list[Offer]] = defaultdict(list)
        for offer in ordered:
            identity = offer.identity
            code = identity.gtin_key if method == GTIN else identity.mpn
            if code is not None:
                groups[code].append(offer)
        for group in groups.values():
            usable = drop_repeated(group)
            if len(usable) > 1:
                yield method, usable


def drop_repeated(group: Sequence[Offer]) -> list[Offer]:
    """Returns the offers with one code without those of shops that give it to several products. Two
    offers of a shop with one title are one product under two addresses."""
    titles: Mapping[str, set[str]] = defaultdict(set)
    for offer in group:
        titles[offer.site].add(" ".join(offer.identity.words))
    return [offer for offer in group if len(titles[offer.site]) == 1]
