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
    Verdict,
    compare,
)

Pair = tuple[int, int]


class Link(NamedTuple):
    """Two offers that are one product. `left` is the lower id."""

    left: int
    right: int
    verdict: Verdict


class Clusters(NamedTuple):
    """The article of each offer, by the offer's id, and the links that hold articles together. An
    article's id is the lowest id among its offers."""

    articles: dict[int, int]
    links: list[Link]


def order(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def cluster_offers(
    offers: Sequence[Offer],
    learned: Learned,
    confirmed: Collection[Pair] = (),
    refused: Collection[Pair] = (),
) -> Clusters:
    """Groups offers into articles: first those that a person has confirmed, then those with equal
    GTINs, then those with equal part numbers. Pairs are (lower id, higher id)."""
    by_id = {offer.id: offer for offer in offers}
    members = {id_: [id_] for id_ in by_id}
    article = {id_: id_ for id_ in by_id}
    forbidden: dict[int, set[int]] = defaultdict(set)
    for left, right in refused:
        forbidden[left].add(right)
        forbidden[right].add(left)

    def join(one: int, other: int) -> None:
        keep, drop = order(article[one], article[other])
        if keep != drop:
            for id_ in members[drop]:
                article[id_] = keep
            members[keep] += members.pop(drop)

    links = []
    for left, right in sorted(confirmed):
        if left in by_id and right in by_id:
            join(left, right)
            links.append(Link(left, right, Verdict(PERSON, 1.0, {})))
    for method, group in _code_groups(offers, learned):
        for place, offer in enumerate(group):
            verdict = None
            for other in group[:place]:
                if article[offer.id] == article[other.id]:
                    break
                verdict = compare(offer, other, learned)
                if verdict.method == method and _may_join(
                    members[article[offer.id]],
                    members[article[other.id]],
                    by_id,
                    forbidden,
                    learned,
                ):
                    join(offer.id, other.id)
                    links.append(Link(*order(offer.id, other.id), verdict))
                    break
    return Clusters(article, links)


def _code_groups(offers: Iterable[Offer], learned: Learned) -> Iterable[tuple[str, list[Offer]]]:
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


def _may_join(
    one: Sequence[int],
    other: Sequence[int],
    by_id: Mapping[int, Offer],
    forbidden: Mapping[int, set[int]],
    learned: Learned,
) -> bool:
    """Whether no offer of one article contradicts one of the other, and no person refused a pair of
    them."""
    if len(one) == len(other) == 1:
        return other[0] not in forbidden.get(one[0], ())
    return not any(
        right in forbidden.get(left, ()) or compare(by_id[left], by_id[right], learned).contradicts
        for left in one
        for right in other
    )
