"""What shops ask for one article, before and after a change. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scraper.plugins.matching.linking.store import StoredOffer


def best_offers(offers: Iterable[StoredOffer]) -> list[dict[str, Any]]:
    """Returns each shop's best listed offer, the cheapest in stock first: what alerts compare."""
    best: dict[str, StoredOffer] = {}
    for stored in offers:
        other = best.get(stored.offer.site)
        if stored.listed and (other is None or rank(stored) < rank(other)):
            best[stored.offer.site] = stored
    return [_describe_offer(stored) for stored in sorted(best.values(), key=rank)]


def rank(stored: StoredOffer) -> tuple[bool, bool, Any, str]:
    """Orders offers: in stock before sold out, with a price before without, then by price."""
    terms = stored.offer.terms
    return (terms.in_stock is False, terms.price is None, terms.price or 0, stored.offer.site)


def _describe_offer(stored: StoredOffer) -> dict[str, Any]:
    terms = stored.offer.terms
    return {
        "site": stored.offer.site,
        "id": stored.external_id,
        "url": stored.url,
        "title": stored.offer.identity.title,
        "price": terms.price,
        "currency": terms.currency,
        "in_stock": terms.in_stock,
    }
