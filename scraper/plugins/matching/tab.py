"""The page "Articles" of the Crawls tab: search, one article with a chart of all shops' prices, and
the review of proposals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scraper.errors import ConfigError
from scraper.plugins.matching import articles, review
from scraper.plugins.matching.articles import PricePoint
from scraper.plugins.matching.linking import decisions
from scraper.plugins.matching.linking.decisions import Decision

TITLE = "Articles"
SCRIPT = Path(__file__).with_name("articles.js")
ANSWERS = Path(__file__).with_name("answers.json")
LISTED = 50
PROPOSALS = 20
# The last changes of prices that a chart shows.
POINTS_MAX = 1000
ID_MAX = 2**63 - 1


def read(connection: sa.Connection, query: Mapping[str, str]) -> dict[str, Any]:
    """Answers `?id=ARTICLE`, `?show=review&after=PLACE`, or `?search=WORDS&shops=N`."""
    now: datetime = connection.execute(sa.text("SELECT now()")).scalar_one()
    if "id" in query:
        return {"now": now, **_read_details(connection, _parse_id(query["id"]))}
    if query.get("show") == "review":
        after = _parse_place(query["after"]) if query.get("after") else None
        rows = review.read_proposals(connection, after, PROPOSALS)
        return {
            "now": now,
            "proposals": [
                row._asdict() | {"why": review.describe_evidence(row.evidence)} for row in rows
            ],
            "links": review.count_links(connection),
        }
    shops = _parse_id(query.get("shops", "1"))
    matching = articles.search_articles(
        connection, query.get("search") or None, shops=min(shops, 1000), limit=LISTED
    )
    return {"now": now, "articles": [article.row() for article in matching], "most": LISTED}


def confirm(engine: sa.Engine, body: Mapping[str, Any], user: str) -> str:
    """Links two offers for good."""
    return _decide(engine, body, user, "confirmed", "linked for good")


def refuse(engine: sa.Engine, body: Mapping[str, Any], user: str) -> str:
    """Keeps two offers apart for good."""
    return _decide(engine, body, user, "refused", "kept apart for good")


ACTIONS = {"confirm": confirm, "refuse": refuse}
OPERATED = frozenset(ACTIONS)


def _decide(
    engine: sa.Engine, body: Mapping[str, Any], user: str, state: Decision, said: str
) -> str:
    ids = [body.get("left"), body.get("right")]
    if any(type(id_) is not int or not 0 < id_ <= ID_MAX for id_ in ids) or len(body) != 2:
        raise ConfigError('the body is {"left": OFFER, "right": OFFER}')
    left, right = ids
    decisions.decide_link(engine, int(left or 0), int(right or 0), state=state, by=user)
    return f"The offers are {said}."


def _read_details(connection: sa.Connection, id_: int) -> dict[str, Any]:
    article = articles.read_article(connection, id_)
    row = article.row()
    points = [
        point
        for point in articles.read_history(connection, id_)
        if row["currency"] is None or point.currency == row["currency"]
    ]
    shops = sorted({point.site for point in points})
    return {
        "article": row,
        "offers": [articles.describe_offer(stored) for stored in article.offers],
        "shops": shops,
        "points": chart_points(points, shops)[-POINTS_MAX:],
    }


def chart_points(points: Sequence[PricePoint], shops: Sequence[str]) -> list[dict[str, Any]]:
    """Returns each time at which a price changed, with the lowest price of each shop from then on;
    None: the shop had no price yet.

    >>> at = datetime(2026, 1, 2)
    >>> chart_points([PricePoint("a", "1", at, Decimal("2.50"), "EUR")], ["a", "b"])[0]["values"]
    [Decimal('2.50'), None]
    """
    prices: dict[str, dict[str, Decimal]] = {shop: {} for shop in shops}
    rows: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda point: point.at):
        prices[point.site][point.id] = point.price
        values = [min(prices[shop].values(), default=None) for shop in shops]
        if rows and rows[-1]["at"] == point.at:
            rows.pop()
        rows.append({"at": point.at, "values": values})
    return rows


def _parse_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ConfigError(f"{text[:40]!r} is not a number")
    return int(text)


def _parse_place(text: str) -> review.Place:
    try:
        confidence, left, right = text.split(",")
        return float(confidence), _parse_id(left), _parse_id(right)
    except ValueError:
        raise ConfigError(f"after={text[:40]!r} is not CONFIDENCE,OFFER,OFFER") from None
