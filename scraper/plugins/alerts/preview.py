"""What price alert rules would have sent: nothing is sent or stored."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from scraper.errors import ConfigError, CursorError
from scraper.feed import reader as feed
from scraper.feed import store
from scraper.feed.market import MarketEvents
from scraper.plugins.alerts.prices import outbox
from scraper.plugins.alerts.prices.market_rules import MarketMatch, match_market
from scraper.plugins.alerts.prices.rules import PriceRule, RuleMatch
from scraper.registry import find_service

DAYS = 7
# A preview of all rules reads at most this many of the newest changes, for this long.
CHANGES_MAX = 20_000
PREVIEW_S = 5.0
SHOWN = 20
FIRST = sa.text("SELECT id, at FROM changes ORDER BY id DESC OFFSET :most LIMIT 1")


def find_matches(
    engine: sa.Engine, rule: PriceRule, days: int
) -> Sequence[RuleMatch | MarketMatch]:
    since = datetime.now(UTC) - timedelta(days=days)
    if rule.market is not None:
        return _find_market_matches(engine, rule, since)
    try:
        cursor = feed.resolve_cursor(engine, since)
    except CursorError:
        cursor = feed.resolve_cursor(engine, "oldest")
    end, matches = store.current_cursor(engine), list[RuleMatch]()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        reader = feed.ChangeReader(connection, cursor)
        while reader.cursor < end:
            matches += outbox.match_rules(connection, [rule], reader.next())
            if reader.waits:
                time.sleep(feed.WAITING_S[0])
    return matches


def _find_market_matches(
    engine: sa.Engine, rule: PriceRule, since: datetime
) -> Sequence[MarketMatch]:
    source = find_service(MarketEvents)  # type: ignore[type-abstract]
    if source is None:
        raise ConfigError(
            f"{rule.when!r} needs the plug-in matching (fix: pip install "
            "'celery-scraper[matching]')"
        )
    matches: list[MarketMatch] = []
    position = 0
    with engine.connect() as connection:
        while events := source.read_events(connection, position, outbox.BATCH):
            position = events[-1].id
            recent = [event for event in events if event.at >= since]
            matches += [match for event in recent for match in match_market(rule, event)]
    return matches


def preview_rules(connection: sa.Connection, rules: Sequence[PriceRule]) -> dict[str, Any]:
    """Returns how many alerts each rule would have sent in the last seven days, and the newest of
    them. In a feed with many changes it reads only the newest: `since` says from when on."""
    now: datetime = connection.execute(sa.text("SELECT now()")).scalar_one()
    since = now - timedelta(days=DAYS)
    first = connection.execute(FIRST, {"most": CHANGES_MAX}).first()
    if first is not None and first.at > since:
        since = first.at
    matched: dict[str, list[RuleMatch | MarketMatch]] = {rule.name: [] for rule in rules}
    latest, read_to = time.monotonic() + PREVIEW_S, now
    for matches, at in _match_in_order(connection, rules, 0 if first is None else first.id):
        for match in matches:
            if match.at >= since:
                matched[match.rule.name].append(match)
        read_to = at
        if time.monotonic() >= latest:
            break
    shown = {
        name: {
            "alerts": len(matches),
            "latest": [
                {"at": match.at, "text": match.message}
                for match in sorted(matches, key=lambda match: match.at, reverse=True)[:SHOWN]
            ],
        }
        for name, matches in matched.items()
    }
    return {"since": since, "until": read_to if time.monotonic() >= latest else now, "rules": shown}


def _match_in_order(
    connection: sa.Connection, rules: Sequence[PriceRule], after: int
) -> Iterator[tuple[Sequence[RuleMatch | MarketMatch], datetime]]:
    """Yields the matches of each batch of changes, then of events over all shops, and the time of
    the batch's last one."""
    cursor = max(after, store.read_start(connection).trimmed)
    own = [rule for rule in rules if rule.market is None]
    if own:
        reader = feed.ChangeReader(connection, cursor)
        for changes in feed.ready_batches(reader, PREVIEW_S):
            yield outbox.match_rules(connection, own, changes), changes[-1].at
    source = find_service(MarketEvents)  # type: ignore[type-abstract]
    market = [rule for rule in rules if rule.market is not None]
    if source is None or not market:
        return
    position = max(0, source.last_event(connection) - CHANGES_MAX)
    while events := source.read_events(connection, position, outbox.BATCH):
        position = events[-1].id
        yield (
            [match for event in events for rule in market for match in match_market(rule, event)],
            events[-1].at,
        )
