"""Price alerts, from the feed to people.

**Exactly once.** One transaction reads the feed on from where the consumer `price-alerts` has come
to, writes a row of `price_alerts` for each rule and change that match, and moves the consumer on.
Whoever dies leaves all of it or nothing. A row is then sent as alerts of crawls are: claimed, sent,
noted; who dies in between may tell somebody twice, with the same id. Of a crawl that was rejected
nobody is told: neither of what it wrote nor of what takes it back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
import structlog

from scraper.domain import Message
from scraper.errors import ConfigError, CursorError
from scraper.feed import consumers, store
from scraper.feed import reader as feed
from scraper.feed.prices import CURRENCY, as_number
from scraper.feed.reader import Change, ChangeReader
from scraper.infra.database import dumps
from scraper.plugins.alerts import notify
from scraper.plugins.alerts import store as alert_store
from scraper.plugins.alerts.crawls import recipients_of
from scraper.plugins.alerts.notify import Notice
from scraper.plugins.alerts.prices import rules as rule_files
from scraper.plugins.alerts.prices.rules import Hit, Rule
from scraper.plugins.alerts.settings import AlertsSettings
from scraper.settings import Settings

log = structlog.get_logger()

CONSUMER = "price-alerts"
BATCH = 500
# A message has so many at the most.
TOLD_MAX = 100
AT_ONCE_S = 10.0
# Who dies has at the most so much to read again.
TRANSACTION_S = 1.0
KEPT = "30 days"

OF_SITES = sa.text("""
SELECT name, definition -> 'alerts' AS alerts FROM sites
 WHERE enabled AND json_array_length(definition -> 'alerts') > 0 ORDER BY name
""")
ALONE = sa.text("SELECT pg_try_advisory_xact_lock(hashtext('scraper: price alerts'))")

# A digest is due at the next whole multiple of its time.
INSERT = sa.text("""
INSERT INTO price_alerts (rule, change_id, crawl_id, details, not_before)
SELECT i.rule, i.change_id, i.crawl_id, i.details,
       CASE WHEN i.every_s = 0 THEN now()
            ELSE to_timestamp(ceil(EXTRACT(EPOCH FROM now()) / i.every_s) * i.every_s) END
  FROM jsonb_to_recordset(CAST(:rows AS jsonb))
    AS i(rule text, change_id bigint, crawl_id bigint, details jsonb, every_s float)
ON CONFLICT (rule, change_id) DO NOTHING
""")

REJECTED = """reasons @> '[{"what": "rejected"}]'"""
OF_REJECTED = sa.text(f"SELECT id FROM crawls WHERE id = ANY (:ids) AND {REJECTED}")

# A version that was written and replaced by the same crawl is one that was taken back.
STOOD = """
NOT EXISTS (SELECT FROM product_versions w WHERE w.product_id = v.product_id
               AND w.version = v.version - 1 AND w.crawl_id = v.crawl_id)"""
EARLIER = sa.text(f"""
SELECT a.id, a.key, last.value
  FROM jsonb_to_recordset(CAST(:asked AS jsonb)) AS a(id bigint, key text, currency text)
  JOIN changes c ON c.id = a.id
 CROSS JOIN LATERAL (
       SELECT CAST(v.data -> a.key AS text) AS value FROM product_versions v
        WHERE v.product_id = c.product_id AND v.version < c.version AND {STOOD}
          AND jsonb_typeof(v.data -> a.key) IN ('number', 'boolean')
          AND v.data ->> (a.key || '{CURRENCY}') IS NOT DISTINCT FROM a.currency
        ORDER BY v.version DESC LIMIT 1) last
""")
LOWEST = sa.text(f"""
SELECT c.id, min(CAST(v.data ->> :key AS numeric)) AS lowest
  FROM changes c JOIN product_versions v ON v.product_id = c.product_id AND v.version < c.version
 WHERE c.id = ANY (:ids) AND v.valid_to > c.at - make_interval(days => :days)
   AND jsonb_typeof(v.data -> :key) = 'number'
   AND v.data ->> :currency_key IS NOT DISTINCT FROM (
       SELECT coalesce(n.data, p.data) ->> :currency_key
         FROM products p LEFT JOIN product_versions n
           ON n.product_id = p.id AND n.version = c.version
        WHERE p.id = c.product_id)
   AND {STOOD}
 GROUP BY c.id
""")

DUE = "a.done_at IS NULL AND a.not_before <= now()"
# While there is nobody to tell, what is old is dropped: who is named later is not told of it.
DROP = sa.text(f"""
UPDATE price_alerts a SET done_at = now(), error = CASE WHEN c.id IS NULL
           THEN coalesce(a.error, 'nobody was to be told within a day')
           ELSE 'the crawl was rejected' END
  FROM price_alerts o LEFT JOIN crawls c ON c.id = o.crawl_id AND c.{REJECTED}
 WHERE o.id = a.id AND {DUE}
   AND (c.id IS NOT NULL OR :nobody AND a.not_before < now() - interval '{alert_store.OLDEST}')
""")
# A crawl may be rejected between a tick's dropping and its sending.
BELIEVED = f"NOT EXISTS (SELECT FROM crawls c WHERE c.id = a.crawl_id AND c.{REJECTED})"
CLAIM = sa.text(f"""
WITH first AS (
    SELECT rule, delivered FROM price_alerts a WHERE {DUE} AND {BELIEVED}
     ORDER BY not_before, id LIMIT 1
), claimed AS (
    SELECT a.id FROM price_alerts a JOIN first USING (rule, delivered)
     WHERE {DUE} AND {BELIEVED}
     ORDER BY a.not_before, a.id LIMIT {TOLD_MAX} FOR UPDATE OF a SKIP LOCKED
)
UPDATE price_alerts a
   SET attempts = attempts + 1,
       not_before = now() + least(60 * power(2, attempts), 3600) * interval '1 second'
  FROM claimed WHERE a.id = claimed.id RETURNING a.id, a.rule, a.details, a.delivered, a.attempts
""")
SENT = sa.text("""
UPDATE price_alerts SET delivered = :delivered, error = :error,
       done_at = CASE WHEN CAST(:error AS text) IS NULL OR attempts >= :attempts_max THEN now() END
 WHERE id = ANY (:ids) AND done_at IS NULL
""")
# The oldest have the lowest ids.
FORGET = sa.text(f"""
DELETE FROM price_alerts WHERE done_at < now() - interval '{KEPT}'
   AND id IN (SELECT id FROM price_alerts ORDER BY id LIMIT 10000)
""")
STATES = sa.text("""
SELECT rule, count(*) AS alerts, count(*) FILTER (WHERE done_at IS NULL) AS waiting,
       max(created_at) AS last, max(error) FILTER (WHERE error IS NOT NULL) AS error
  FROM price_alerts WHERE created_at > now() - interval '7 days' GROUP BY rule
""")


def alert_prices(engine: sa.Engine, settings: Settings) -> list[Message]:
    """One tick. Returns nothing to send."""
    try:
        with engine.connect() as connection:
            rules = load(connection, settings)
        collect(engine, rules)
    except (ConfigError, CursorError) as error:
        log.error("the rules of price alerts cannot be followed", problems=str(error).splitlines())
        return []
    with engine.begin() as connection:
        due = connection.execute(sa.text(f"SELECT FROM price_alerts a WHERE {DUE} LIMIT 1")).first()
    recipients = recipients_of(settings) if due is not None else []
    with engine.begin() as connection:
        connection.execute(DROP, {"nobody": not recipients})
        connection.execute(FORGET)
    latest = time.monotonic() + AT_ONCE_S
    told = {rule.name: rule for rule in rules}
    while recipients and time.monotonic() < latest and _send_next(engine, told, recipients):
        pass
    return []


def load(connection: sa.Connection, settings: Settings) -> list[Rule]:
    """All rules: of the file that SCRAPER_ALERT_RULES names, and of definitions. Raises
    `ConfigError`."""
    own = settings.of(AlertsSettings)
    rules = [] if own.alert_rules is None else rule_files.load(own.alert_rules)
    names = {rule.name for rule in rules}
    for row in connection.execute(OF_SITES):
        for rule in rule_files.of_site(row.name, row.alerts):
            if rule.name in names:
                raise ConfigError(
                    f"{own.alert_rules}: {rule.name!r} is also a rule of {row.name}'s "
                    "definition (fix: rename one)"
                )
            rules.append(rule)
    return rules


def collect(engine: sa.Engine, rules: Sequence[Rule]) -> None:
    """Writes the alerts of what has come since. The first time, and once there were no rules, it
    begins with what comes now."""
    latest = time.monotonic() + AT_ONCE_S
    while _collect_some(engine, rules) and time.monotonic() < latest:
        pass


def _collect_some(engine: sa.Engine, rules: Sequence[Rule]) -> bool:
    """One transaction. Returns whether there may be more to read."""
    with engine.begin() as connection:
        if not connection.execute(ALONE).scalar():
            return False
        before = consumers.read_position(connection, CONSUMER, None)
        if not rules:
            if before is not None:
                consumers.forget_consumer(connection, CONSUMER)
            return False
        if before is None:
            consumers.set_position(connection, CONSUMER, None, store.current_cursor(engine))
            return False
        trimmed = store.read_start(connection).trimmed
        if before < trimmed:
            log.warning("price alerts miss what the feed has forgotten", after=before, upto=trimmed)
        reader = ChangeReader(connection, max(before, trimmed), rows=BATCH)
        latest = time.monotonic() + TRANSACTION_S
        for changes in feed.ready_batches(reader, TRANSACTION_S):
            _write(connection, hits(connection, rules, changes))
        if reader.cursor != before:
            consumers.advance_position(connection, CONSUMER, None, before, reader.cursor)
        return time.monotonic() >= latest


def hits(
    connection: sa.Connection, rules: Sequence[Rule], changes: Collection[Change]
) -> list[Hit]:
    """What rules say of changes, in the feed's order."""
    earlier = _earlier(connection, rules, changes)
    matched = []
    for change in changes:
        for rule in rules:
            last = earlier.get((change.cursor, rule.field_of(change.data))) if earlier else None
            text = rule.match(change, last)
            if text is not None:
                matched.append(Hit(rule, change, text, last))
    crawls = sorted({hit.change.crawl for hit in matched})
    rejected = set(connection.execute(OF_REJECTED, {"ids": crawls}).scalars()) if crawls else set()
    lowest: dict[tuple[str, int], Any] = {}
    for rule in {hit.rule.name: hit.rule for hit in matched if hit.rule.lowest_days}.values():
        values = {
            "ids": [hit.change.cursor for hit in matched if hit.rule is rule],
            "key": rule.reads,
            "currency_key": rule.reads + CURRENCY,
            "days": rule.lowest_days,
        }
        for row in connection.execute(LOWEST, values):
            lowest[rule.name, row.id] = row.lowest
    return [
        hit
        for hit in matched
        if hit.change.crawl not in rejected
        and (not hit.rule.lowest_days or _is_lowest(hit, lowest))
    ]


def _earlier(
    connection: sa.Connection, rules: Sequence[Rule], changes: Collection[Change]
) -> dict[tuple[int, str], Any]:
    """By change and field the last known values of what the versions before do not tell."""
    asked = {
        (change.cursor, key): change.data.get(key + CURRENCY)
        for change in changes
        for rule in rules
        if (key := rule.lacks_before(change)) is not None
    }
    if not asked:
        return {}
    wanted = [
        {"id": id_, "key": key, "currency": currency} for (id_, key), currency in asked.items()
    ]
    rows = connection.execute(EARLIER, {"asked": dumps(wanted)})
    return {(row.id, row.key): json.loads(row.value, parse_float=Decimal) for row in rows}


def _is_lowest(hit: Hit, lowest: dict[tuple[str, int], Any]) -> bool:
    before = lowest.get((hit.rule.name, hit.change.cursor))
    after = as_number(hit.change.data.get(hit.rule.reads))
    return before is not None and after is not None and after < before


def _write(connection: sa.Connection, found: Sequence[Hit]) -> None:
    rows = [
        {
            "rule": hit.rule.name,
            "change_id": hit.change.cursor,
            "crawl_id": hit.change.crawl,
            "details": hit.details(),
            "every_s": hit.rule.every_s,
        }
        for hit in found
    ]
    if rows:
        connection.execute(INSERT, {"rows": dumps(rows)})


def recipients_for(
    rule: Rule, recipients: Sequence[notify.Recipient]
) -> Sequence[notify.Recipient]:
    """Whom a rule's alerts are for: those whom it names, else those that have no name."""
    return [one for one in recipients if (one.names & set(rule.to) if rule.to else not one.names)]


def _send_next(
    engine: sa.Engine, rules: Mapping[str, Rule], recipients: Sequence[notify.Recipient]
) -> bool:
    with engine.begin() as connection:
        rows = sorted(connection.execute(CLAIM).all(), key=lambda row: row.id)
    if not rows:
        return False
    rule, delivered = rows[0].rule, set(rows[0].delivered)
    lines = [str(row.details["text"]) for row in rows]
    title = f"{rule}: {lines[0]}" if len(rows) == 1 else f"{rule}: {len(rows)} products"
    details = {"rule": rule, "alerts": [row.details for row in rows]}
    to = recipients_for(rules[rule], recipients) if rule in rules else []
    notice = Notice(title, "\n".join(lines), details, failure=False)
    reached, unreached = notify.send_missing(notice, to, delivered)
    if not to:
        unreached = ["nobody is of that name" if rule in rules else "its rule is gone"]
    values = {
        "ids": [row.id for row in rows],
        "delivered": sorted(delivered.union(reached)),
        "error": f"not reached: {', '.join(unreached)}" if unreached else None,
        "attempts_max": alert_store.ATTEMPTS_MAX,
    }
    with engine.begin() as connection:
        connection.execute(SENT, values)
    event = {"rule": rule, "alerts": len(rows), "told": len(reached)}
    if unreached:
        log.error("price alerts not delivered to all", **event, unreached=unreached)
    else:
        log.info("price alerts sent", **event)
    return True


def states(connection: sa.Connection) -> dict[str, sa.Row[Any]]:
    """What came of each rule within a week, by its name."""
    return {row.rule: row for row in connection.execute(STATES)}
