"""Sends price alerts for changes in the feed.

**Exactly once.** One transaction reads the feed from the position of the consumer `price-alerts`,
inserts a row of `price_alerts` for each rule and change that match, and advances the consumer. A
coordinator that dies leaves all of these steps or none. Rows are then claimed, sent and recorded as
alerts about crawls are: a coordinator that dies in between may send a message twice, with the same
id. Rejected crawls cause no alerts, neither for their changes nor for the reverting of these.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
import structlog

from scraper.domain import Message
from scraper.errors import ConfigError, CursorError
from scraper.feed import consumers, store
from scraper.feed import reader as feed
from scraper.feed.market import MarketEvents
from scraper.feed.prices import CURRENCY, as_number
from scraper.feed.reader import Change, ChangeReader
from scraper.feed.watched import WatchRule
from scraper.infra.database import dumps, loads
from scraper.infra.statements import sql
from scraper.plugins.alerts import store as alert_store
from scraper.plugins.alerts.crawls import read_recipients
from scraper.plugins.alerts.mail import write_prices
from scraper.plugins.alerts.prices import rules as rule_files
from scraper.plugins.alerts.prices.best_prices import name_best
from scraper.plugins.alerts.prices.market_rules import MarketMatch, match_market
from scraper.plugins.alerts.prices.rules import PriceRule, RuleMatch
from scraper.plugins.alerts.sending import notify
from scraper.plugins.alerts.sending import recipients as recipient_list
from scraper.plugins.alerts.sending.notify import Notice
from scraper.plugins.alerts.settings import AlertsSettings
from scraper.registry import find_service
from scraper.settings import Settings

M = TypeVar("M", RuleMatch, MarketMatch)

log = structlog.get_logger()

CONSUMER = "price-alerts"
MARKET_CONSUMER = "market-alerts"
BATCH = 500
# Alerts per message.
PER_MESSAGE_MAX = 100
AT_ONCE_S = 10.0
# A coordinator that dies repeats at most this much reading.
TRANSACTION_S = 1.0
KEPT = "30 days"

RULES_OF_SITES = sa.text("""
SELECT name, definition -> 'alerts' AS alerts FROM sites
 WHERE enabled AND json_array_length(definition -> 'alerts') > 0 ORDER BY name
""")
LOCK = sa.text("SELECT pg_try_advisory_xact_lock(hashtext('scraper: price alerts'))")
REJECTED_CRAWLS = sa.text("""
SELECT id FROM crawls WHERE id = ANY (:ids) AND reasons @> '[{"what": "rejected"}]'
""")
DUE = sa.text("SELECT FROM price_alerts WHERE done_at IS NULL AND not_before <= now() LIMIT 1")
INSERT = sa.text(sql("plugins/alerts/prices/insert_price_alerts.sql"))
EARLIER_VALUES = sa.text(sql("plugins/alerts/prices/earlier_values.sql"))
LOWEST_PRICES = sa.text(sql("plugins/alerts/prices/lowest_prices.sql"))
DROP = sa.text(sql("plugins/alerts/prices/drop_price_alerts.sql"))
CLAIM = sa.text(sql("plugins/alerts/prices/claim_price_alerts.sql"))
DELIVERED = sa.text("""
UPDATE price_alerts SET delivered = :delivered, error = :error,
       done_at = CASE WHEN CAST(:error AS text) IS NULL OR attempts >= :attempts_max THEN now() END
 WHERE id = ANY (:ids) AND done_at IS NULL
""")
# The oldest have the lowest ids.
FORGET = sa.text("""
DELETE FROM price_alerts WHERE done_at < now() - CAST(:kept AS interval)
   AND id IN (SELECT id FROM price_alerts ORDER BY id LIMIT 10000)
""")
RULE_STATES = sa.text("""
SELECT rule, count(*) AS alerts, count(*) FILTER (WHERE done_at IS NULL) AS waiting,
       max(created_at) AS last, max(error) FILTER (WHERE error IS NOT NULL) AS error
  FROM price_alerts WHERE created_at > now() - interval '7 days' GROUP BY rule
""")


def alert_prices(engine: sa.Engine, settings: Settings) -> list[Message]:
    """Collects and sends price alerts, as one tick. Returns an empty list: no task follows."""
    try:
        with engine.connect() as connection:
            rules = load_rules(connection, settings)
        collect(engine, [rule for rule in rules if rule.market is None])
        collect_market(engine, [rule for rule in rules if rule.market is not None])
    except (ConfigError, CursorError) as error:
        log.error(
            "price alert rules have problems; no price alert is sent",
            problems=str(error).splitlines(),
        )
        return []
    with engine.begin() as connection:
        due = connection.execute(DUE).first()
    recipients = read_recipients(settings) if due is not None else []
    with engine.begin() as connection:
        _drop_old(connection, has_recipients=bool(recipients))
        connection.execute(FORGET, {"kept": KEPT})
    latest = time.monotonic() + AT_ONCE_S
    by_name = {rule.name: rule for rule in rules}
    while (
        recipients
        and time.monotonic() < latest
        and _send_next(engine, by_name, recipients, settings.of(AlertsSettings).alert_tab)
    ):
        pass
    return []


def _drop_old(connection: sa.Connection, *, has_recipients: bool) -> None:
    values = {
        "unread": not has_recipients,
        "oldest": alert_store.OLDEST,
        "expired": alert_store.DROPPED,
        "rejected": "the crawl was rejected",
    }
    connection.execute(DROP, values)


def load_rules(connection: sa.Connection, settings: Settings) -> list[PriceRule]:
    """Returns the rules of the file that SCRAPER_ALERT_RULES names, and of all definitions. Raises
    `ConfigError`."""
    own = settings.of(AlertsSettings)
    rules = [] if own.alert_rules is None else rule_files.load_rules(own.alert_rules)
    names = {rule.name for rule in rules}
    for row in connection.execute(RULES_OF_SITES):
        for rule in rule_files.site_rules(row.name, row.alerts):
            if rule.name in names:
                raise ConfigError(
                    f"{own.alert_rules}: {rule.name!r} is also a rule of {row.name}'s "
                    "definition (fix: rename one)"
                )
            rules.append(rule)
    return rules


def watched_products(
    connection: sa.Connection, settings: Settings, site: str
) -> Sequence[WatchRule]:
    """Returns which of a site's products rules name. Rules with problems name none."""
    try:
        rules = load_rules(connection, settings)
    except ConfigError:
        # The tick logs the problems.
        return []
    return [
        WatchRule(rule.id, rule.where)
        for rule in rules
        if rule.site in (None, site) and (rule.id is not None or rule.where)
    ]


def collect(engine: sa.Engine, rules: Sequence[PriceRule]) -> None:
    """Inserts the alerts of new changes. The first time, and after a time without rules, it starts
    at the end of the feed."""
    latest = time.monotonic() + AT_ONCE_S
    while _collect_batch(engine, rules) and time.monotonic() < latest:
        pass


def _collect_batch(engine: sa.Engine, rules: Sequence[PriceRule]) -> bool:
    """Collects in one transaction. Returns whether there may be more to read."""
    with engine.begin() as connection:
        if not connection.execute(LOCK).scalar():
            return False
        before = _read_start(connection, CONSUMER, rules, lambda: store.current_cursor(engine))
        if before is None:
            return False
        trimmed = store.read_start(connection).trimmed
        if before < trimmed:
            log.warning(
                "price alerts skip changes that the feed no longer has", after=before, upto=trimmed
            )
        position = store.common_position(connection, max(before, trimmed))
        reader = ChangeReader(connection, position, rows=BATCH)
        latest = time.monotonic() + TRANSACTION_S
        for changes in feed.ready_batches(reader, TRANSACTION_S):
            _insert_alerts(
                connection, name_best(connection, match_rules(connection, rules, changes))
            )
        if reader.cursor != before:
            consumers.advance_position(connection, CONSUMER, None, before, reader.cursor)
        if reader.has_passed_replacement(before):
            log.warning(
                "PostgreSQL was replaced; price alerts about changes that it lost come again",
                after=position,
            )
        return time.monotonic() >= latest


def _read_start(
    connection: sa.Connection, consumer: str, rules: Sequence[PriceRule], last: Callable[[], int]
) -> int | None:
    """Returns the position from which to read. None: there is nothing to read yet. Without rules
    the consumer is forgotten, and a new consumer starts at the last position."""
    position = consumers.read_position(connection, consumer, None)
    if rules and position is None:
        consumers.set_position(connection, consumer, None, last())
    elif not rules and position is not None:
        consumers.forget_consumer(connection, consumer)
        return None
    return position


def collect_market(engine: sa.Engine, rules: Sequence[PriceRule]) -> None:
    """Inserts the alerts of what changed over all shops, likewise exactly once: the consumer
    `market-alerts` advances in the same transaction. The first time it starts at the end."""
    source = find_service(MarketEvents)  # type: ignore[type-abstract]
    latest = time.monotonic() + AT_ONCE_S
    while source is not None and time.monotonic() < latest:
        with engine.begin() as connection:
            if not _collect_market_batch(connection, source, rules):
                return
    if rules and source is None:
        log.error("rules over all shops need the plug-in matching", rules=[r.name for r in rules])


def _collect_market_batch(
    connection: sa.Connection, source: MarketEvents, rules: Sequence[PriceRule]
) -> bool:
    """Returns whether there may be more to read."""
    if not connection.execute(LOCK).scalar():
        return False
    before = _read_start(connection, MARKET_CONSUMER, rules, lambda: source.last_event(connection))
    if before is None:
        return False
    events = source.read_events(connection, before, BATCH)
    matches = [match for event in events for rule in rules for match in match_market(rule, event)]
    _insert_alerts(connection, _drop_rejected(connection, matches))
    if events:
        consumers.advance_position(connection, MARKET_CONSUMER, None, before, events[-1].id)
    return len(events) == BATCH


def _drop_rejected(connection: sa.Connection, matches: list[M]) -> list[M]:
    """Returns the matches without those of rejected crawls."""
    crawls = sorted({match.crawl for match in matches})
    if not crawls:
        return matches
    rejected = set(connection.execute(REJECTED_CRAWLS, {"ids": crawls}).scalars())
    return [match for match in matches if match.crawl not in rejected]


def match_rules(
    connection: sa.Connection, rules: Sequence[PriceRule], changes: Collection[Change]
) -> list[RuleMatch]:
    """Returns the matches of rules and changes, in the order of the feed."""
    earlier = _read_earlier_values(connection, rules, changes)
    matched = []
    for change in changes:
        for rule in rules:
            last = earlier.get((change.cursor, rule.select_field(change.data))) if earlier else None
            text = rule.match(change, last)
            if text is not None:
                matched.append(RuleMatch(rule, change, text, last))
    matched = _drop_rejected(connection, matched)
    lowest: dict[tuple[str, int], Any] = {}
    for rule in {
        match.rule.name: match.rule for match in matched if match.rule.lowest_days
    }.values():
        values = {
            "ids": [match.change.cursor for match in matched if match.rule is rule],
            "key": rule.default_field,
            "currency_key": rule.default_field + CURRENCY,
            "days": rule.lowest_days,
        }
        for row in connection.execute(LOWEST_PRICES, values):
            lowest[rule.name, row.id] = row.lowest
    return [match for match in matched if not match.rule.lowest_days or _is_lowest(match, lowest)]


def _read_earlier_values(
    connection: sa.Connection, rules: Sequence[PriceRule], changes: Collection[Change]
) -> dict[tuple[int, str], Any]:
    """Returns the last known values, by change and field, where the version before has none to
    compare with."""
    asked = {
        (change.cursor, key): change.data.get(key + CURRENCY)
        for change in changes
        for rule in rules
        if (key := rule.field_to_look_up(change)) is not None
    }
    if not asked:
        return {}
    wanted = [
        {"id": id_, "key": key, "currency": currency} for (id_, key), currency in asked.items()
    ]
    rows = connection.execute(EARLIER_VALUES, {"asked": dumps(wanted), "currency_suffix": CURRENCY})
    return {(row.id, row.key): loads(row.value) for row in rows}


def _is_lowest(match: RuleMatch, lowest: dict[tuple[str, int], Any]) -> bool:
    before = lowest.get((match.rule.name, match.change.cursor))
    after = as_number(match.change.data.get(match.rule.default_field))
    return before is not None and after is not None and after < before


def _insert_alerts(connection: sa.Connection, matches: Sequence[RuleMatch | MarketMatch]) -> None:
    rows = [
        {
            "rule": match.rule.name,
            "change_id": match.position,
            "crawl_id": match.crawl,
            "details": match.details(),
            "every_s": match.rule.every_s,
        }
        for match in matches
    ]
    if rows:
        connection.execute(INSERT, {"rows": dumps(rows)})


def select_recipients(
    rule: PriceRule, recipients: Sequence[recipient_list.Recipient]
) -> Sequence[recipient_list.Recipient]:
    """Returns the recipients that the rule names, or those without a name if it names none."""
    if rule.to:
        return [recipient for recipient in recipients if recipient.names & set(rule.to)]
    return [recipient for recipient in recipients if not recipient.names]


def _send_next(
    engine: sa.Engine,
    rules: Mapping[str, PriceRule],
    recipients: Sequence[recipient_list.Recipient],
    tab: str,
) -> bool:
    with engine.begin() as connection:
        rows = sorted(
            connection.execute(CLAIM, {"most": PER_MESSAGE_MAX}).all(), key=lambda row: row.id
        )
    if not rows:
        return False
    name, delivered = rows[0].rule, set(rows[0].delivered)
    lines = [str(row.details["text"]) for row in rows]
    title = f"{name}: {lines[0]}" if len(rows) == 1 else f"{name}: {len(rows)} products"
    details = {"rule": name, "alerts": [row.details for row in rows]}
    rule = rules.get(name)
    to = [] if rule is None else select_recipients(rule, recipients)
    exact = [loads(row.exact) for row in rows]
    mail = None if rule is None else write_prices(name, rule.when, exact, tab)
    notice = Notice(title, "\n".join(lines), details, failure=False, mail=mail)
    reached, parts, unreached = notify.send_missing(notice, to, delivered)
    if not to:
        unreached = [
            "the rule no longer exists" if rule is None else "no recipient has such a name"
        ]
    values = {
        "ids": [row.id for row in rows],
        "delivered": sorted(delivered.union(reached, parts)),
        "error": f"not reached: {', '.join(unreached)}" if unreached else None,
        "attempts_max": alert_store.ATTEMPTS_MAX,
    }
    with engine.begin() as connection:
        connection.execute(DELIVERED, values)
    event = {"rule": name, "alerts": len(rows), "delivered": len(reached)}
    if unreached:
        log.error("price alerts not delivered to all", **event, unreached=unreached)
    else:
        log.info("price alerts sent", **event)
    return True


def read_rule_states(connection: sa.Connection) -> dict[str, sa.Row[Any]]:
    """Returns each rule's alerts of the last week, by its name."""
    return {row.rule: row for row in connection.execute(RULE_STATES)}
