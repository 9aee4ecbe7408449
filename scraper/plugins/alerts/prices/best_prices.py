"""Names the best price over all shops in alerts about the price of one shop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import sqlalchemy as sa

from scraper.feed.market import MarketEvents, ShopOffer
from scraper.feed.prices import CURRENCY, as_number, stock_field, title_of
from scraper.feed.reader import Change
from scraper.plugins.alerts.prices.rules import RuleMatch
from scraper.registry import find_service


def name_best(connection: sa.Connection, matches: Iterable[RuleMatch]) -> list[RuleMatch]:
    """Returns the matches, those of prices with the best offer now if several shops sell the
    product."""
    source = find_service(MarketEvents)  # type: ignore[type-abstract]
    return [
        replace(match, best=_find_best(connection, source, match.change))
        if source is not None and match.rule.is_about_price
        else match
        for match in matches
    ]


def _find_best(connection: sa.Connection, source: MarketEvents, change: Change) -> ShopOffer | None:
    """Returns the best offer, taking the shop's own from the change: it may not be linked yet."""
    data = change.data
    price, currency = as_number(data.get("price")), data.get("price" + CURRENCY)
    stock = stock_field(data)
    in_stock = None if stock is None else bool(data[stock])
    rival = source.find_rival(connection, (change.site, change.id, currency))
    if rival is None or price is None or rival.price is None:
        return None
    if in_stock is False or rival.price < price:
        return rival
    return ShopOffer(change.site, change.id, change.url, title_of(data), price, currency, in_stock)
