"""The page "Notifications" of the Crawls tab: recipients, rules with what they would have said, and
what was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scraper import settings
from scraper.errors import ConfigError, ScraperError
from scraper.infra.statements import sql
from scraper.plugins.alerts import editing
from scraper.plugins.alerts.editing import find_recipient
from scraper.plugins.alerts.keys import EVENTS
from scraper.plugins.alerts.preview import preview_rules
from scraper.plugins.alerts.prices import outbox
from scraper.plugins.alerts.prices.rules import PriceRule
from scraper.plugins.alerts.sending import notify
from scraper.plugins.alerts.sending import recipients as recipient_list
from scraper.plugins.alerts.sending.recipients import Recipient
from scraper.plugins.alerts.settings import AlertsSettings

TITLE = "Notifications"
SCRIPT = Path(__file__).with_name("alerts.js")
ANSWERS = Path(__file__).with_name("answers.json")
BODY_MAX_BYTES = 300_000
# An address holds passwords and tokens.
SECRETS = ("address",)
SENT_SHOWN = 30
# Flower itself waits for 12 s.
TEST_S = 8.0
SENT = sa.text(sql("plugins/alerts/sent_alerts.sql"))


def read(connection: sa.Connection, query: Mapping[str, str]) -> dict[str, Any]:
    """Answers `?preview=1` with what the rules would have sent, or with everything else."""
    own = settings.load()
    files = own.of(AlertsSettings)
    now = connection.execute(sa.text("SELECT now()")).scalar_one()
    rules, problem = _load_rules(connection)
    if "preview" in query:
        return {"now": now, "preview": preview_rules(connection, rules)}
    recipients, list_problem = _load_recipients(files)
    states = outbox.read_rule_states(connection)
    rows = connection.execute(SENT, {"most": SENT_SHOWN}).mappings()
    return {
        "now": now,
        "recipients": {
            "file": _name_file(files.alerts),
            "problem": list_problem,
            "list": [_describe_recipient(recipient) for recipient in recipients],
            "writable": editing.is_writable(files.alerts),
        },
        "rules": {
            "file": _name_file(files.alert_rules),
            "problem": problem,
            "list": [_describe_rule(rule, states.get(rule.name), recipients) for rule in rules],
            "writable": editing.is_writable(files.alert_rules),
        },
        "events": EVENTS.replace("; over all shops: ", ", ").split(", "),
        "log": editing.has_log(),
        "sent": [_describe_sent(dict(row), recipients) for row in rows],
    }


def _name_file(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _load_rules(connection: sa.Connection) -> tuple[list[PriceRule], str]:
    """Returns the rules, or the problems of their file."""
    try:
        return outbox.load_rules(connection, settings.load()), ""
    except ConfigError as error:
        return [], str(error)


def _load_recipients(files: AlertsSettings) -> tuple[list[Recipient], str]:
    if files.alerts is None:
        return [], ""
    try:
        return recipient_list.load_recipients(files.alerts), ""
    except ConfigError as error:
        return [], str(error)


def _describe_recipient(recipient: Recipient) -> dict[str, Any]:
    """Returns what may be shown of a recipient: never its address."""
    names = sorted(recipient.names)
    row = {"line": recipient.line, "kind": recipient.kind, "host": recipient.host}
    return {**row, "key": recipient.key, "names": names}


def _describe_rule(
    rule: PriceRule, state: sa.Row[Any] | None, recipients: Sequence[Recipient]
) -> dict[str, Any]:
    scope = [rule.site, rule.id, *(f"{key}={value}" for key, value in rule.where.items())]
    return {
        "name": rule.name,
        "when": rule.when,
        "of": " ".join(part for part in scope if part) or "all products",
        "every": rule.every,
        "to": list(rule.to),
        "reaches": len(outbox.select_recipients(rule, recipients)),
        # A definition's rule is named after its site.
        "definition": rule.site if rule.name.startswith(f"{rule.site}.") else None,
        "alerts": state.alerts if state else 0,
        "waiting": state.waiting if state else 0,
    }


def _describe_sent(row: dict[str, Any], recipients: Sequence[Recipient]) -> dict[str, Any]:
    """Names the recipients that have the whole alert, by their present lines."""
    labels = {recipient.key: recipient.label for recipient in recipients}
    whole = [key for key in row["delivered"] if notify.PART not in key]
    delivered = [labels.get(key, f"{key.partition(' ')[0]}, removed") for key in whole]
    return {**row, "delivered": delivered}


def test_recipient(engine: sa.Engine, body: Mapping[str, Any], user: str) -> str:
    """Sends a test message to one recipient."""
    recipient = find_recipient(editing.recipients_file(), body)
    failures = notify.find_failures(notify.make_test_notice(), [recipient], TEST_S)
    if failures:
        raise ScraperError(f"{recipient.label} was not reached: {failures[recipient]}")
    return f"{recipient.label} accepted the test message."


QUESTIONS = {"rules": editing.read_rules, "check": editing.check_rules}
ACTIONS = {
    "test": test_recipient,
    "add": editing.add_recipient,
    "remove": editing.remove_recipient,
    "save": editing.save_rules,
}
OPERATED = ("test",)
