"""Rules about one article over all shops: who is cheapest, who undercuts whom. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from scraper.feed.market import MarketEvent, ShopOffer
from scraper.feed.prices import format_amount
from scraper.plugins.alerts.prices.rules import PriceRule, describe_best


@dataclass(frozen=True, slots=True)
class MarketMatch:
    """A rule and an event of an article that matches it: `offer` is the shop's that the rule is
    about, `best` the offer that the alert names."""

    rule: PriceRule
    event: MarketEvent
    offer: ShopOffer
    best: ShopOffer
    text: str

    @property
    def position(self) -> int:
        """Identifies the event among a rule's alerts; positions in the feed are above 0."""
        return -self.event.id

    @property
    def crawl(self) -> int:
        return self.event.crawl or 0

    @property
    def at(self) -> datetime:
        return self.event.at

    @property
    def message(self) -> str:
        offer, best = self.offer, self.best
        return f"{offer.title} ({offer.site}): {self.text} {best.url or offer.url or ''}".rstrip()

    def details(self) -> dict[str, Any]:
        """Returns what a webhook's program receives."""
        offer, best = self.offer, self.best
        return {
            # A promoted standby may give out the event's id a second time.
            "id": f"{self.rule.name}:{self.position}:{self.at.timestamp()}",
            "rule": self.rule.name,
            "event": self.rule.when,
            "site": offer.site,
            "product": offer.id,
            "name": offer.title,
            "url": offer.url,
            "price": offer.price,
            "currency": offer.currency,
            "best": describe_best(best),
            "article": self.event.article,
            "crawl": self.event.crawl,
            "at": self.event.at.isoformat(),
            "text": self.message,
        }


def match_market(rule: PriceRule, event: MarketEvent) -> list[MarketMatch]:
    """Returns what a rule says about an event: one match, for the shop that the rule names, or for
    the first one of all shops."""
    before = {offer.site: offer for offer in event.before}
    for offer in event.after:
        if rule.site in (None, offer.site) and rule.id in (None, offer.id):
            match = next(_match_offer(rule, event, offer, before.get(offer.site)), None)
            if match is not None:
                return [match]
    return []


def _match_offer(
    rule: PriceRule, event: MarketEvent, offer: ShopOffer, was: ShopOffer | None
) -> Iterator[MarketMatch]:
    when = rule.market or ""
    if when == "back in stock anywhere":
        back = [other for other in event.after if other.in_stock]
        before = [other for other in event.before if other.in_stock is not None]
        if back and before and not any(other.in_stock for other in before):
            best = back[0]
            price = format_amount(best.price, best.currency)
            yield MarketMatch(rule, event, offer, best, f"back in stock at {best.site}: {price}")
        return
    rivals, were = _find_rivals(offer, event.after), _find_rivals(was, event.before) if was else []
    if was is None or offer.price is None or not rivals:
        return
    price = format_amount(offer.price, offer.currency)
    best = rivals[0]
    assert best.price is not None
    theirs = f"{format_amount(best.price, best.currency)} at {best.site}"
    if when == "cheapest":
        if were and not _is_cheapest(was, were) and _is_cheapest(offer, rivals):
            text = f"cheapest of {len(rivals) + 1} shops: {price}, then {theirs}"
            yield MarketMatch(rule, event, offer, offer, text)
    elif when == "no longer cheapest":
        if _is_cheapest(was, were) and best.price < offer.price:
            yield MarketMatch(
                rule, event, offer, best, f"no longer cheapest: {theirs}, not {price}"
            )
    else:
        by, least = _percent_below(offer, rivals), rule.undercut_percent
        if by > 0 and by >= least and not 0 < _percent_below(was, were) >= least:
            text = f"undercut by {by:.1f}%: {theirs}, not {price}"
            yield MarketMatch(rule, event, offer, best, text)


def _find_rivals(offer: ShopOffer, offers: Sequence[ShopOffer]) -> list[ShopOffer]:
    """Returns the offers of other shops that can be compared, the cheapest first."""
    usable = [
        other
        for other in offers
        if other.site != offer.site
        and other.price is not None
        and other.currency == offer.currency
        and other.in_stock is not False
    ]
    return sorted(usable, key=lambda other: (other.price or Decimal(0), other.site))


def _is_cheapest(offer: ShopOffer, rivals: Sequence[ShopOffer]) -> bool:
    """Returns whether no other shop asks less. A shop that has sold out is not the cheapest."""
    if offer.price is None or offer.in_stock is False:
        return False
    return all(offer.price <= rival.price for rival in rivals if rival.price is not None)


def _percent_below(offer: ShopOffer, rivals: Sequence[ShopOffer]) -> Decimal:
    """Returns by how many percent the cheapest other shop is below an offer; 0 or less: it is
    not."""
    lowest = rivals[0].price if rivals else None
    if lowest is None or not offer.price:
        return Decimal(0)
    return (offer.price - lowest) / offer.price * 100
