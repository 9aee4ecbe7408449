"""`scraper alerts`: shows price alert rules and what they match, and tests the recipients."""

from __future__ import annotations

from typing import Any

import click
import sqlalchemy as sa

from scraper.actions.named_definitions import definition_in_file
from scraper.cli.common.engine import open_engine
from scraper.cli.common.shared import json_option, load_settings, print_json
from scraper.cli.common.tables import one_line, print_table
from scraper.errors import ConfigError, NotFoundError, ScraperError, did_you_mean
from scraper.infra.secret_files import readable_by_all
from scraper.plugins.alerts.keys import AlertsKeys
from scraper.plugins.alerts.preview import find_matches
from scraper.plugins.alerts.prices import outbox
from scraper.plugins.alerts.prices.rules import PriceRule, site_rules
from scraper.plugins.alerts.sending import notify
from scraper.plugins.alerts.sending import recipients as recipient_list
from scraper.plugins.alerts.settings import AlertsSettings
from scraper.settings import Settings


@click.group(invoke_without_command=True)
@json_option("array")
@click.pass_context
def alerts(context: click.Context, as_json: bool) -> None:
    """Show the rules of price alerts, and the alerts of a week."""
    if context.invoked_subcommand is not None:
        return
    with open_engine().connect() as connection:
        rules, states = (
            outbox.load_rules(connection, load_settings()),
            outbox.read_rule_states(connection),
        )
    if not rules:
        raise ConfigError(
            "no rules: neither `alerts:` in a definition, nor SCRAPER_ALERT_RULES "
            "(docs/how-to/alerts.md)"
        )
    rows = [_rule_row(rule, states.get(rule.name)) for rule in rules]
    if as_json:
        print_json(rows)
        return
    columns = ["rule", "when", "of", "to", "alerts", "waiting", "last", "problem"]
    print_table(columns, [[one_line(str(row[key] or "")) for key in columns] for row in rows])


def _rule_row(rule: PriceRule, state: sa.Row[Any] | None) -> dict[str, Any]:
    scope = [rule.site, rule.id, *(f"{key}={value}" for key, value in rule.where.items())]
    return {
        "rule": rule.name,
        "when": rule.when,
        "of": " ".join(part for part in scope if part) or "all",
        "to": ", ".join(rule.to) or "recipients without a name",
        "alerts": state.alerts if state else 0,
        "waiting": state.waiting if state else 0,
        "last": state.last.isoformat(timespec="seconds") if state else None,
        "problem": state.error if state else None,
    }


@alerts.command("test")
@click.argument("rule", required=False)
@click.option(
    "--days", type=click.IntRange(1, 366), default=7, help="With RULE: for this many days."
)
@json_option("array")
def alerts_test(rule: str | None, days: int, as_json: bool) -> None:
    """Send a test message to all recipients (SCRAPER_ALERTS), and show who received it; exit 1
    unless all did. With RULE, show what it would have sent, and send nothing."""
    if rule is not None:
        _show_matches(rule, days, as_json)
        return
    settings = load_settings()
    results = _send_test(settings)
    if as_json:
        print_json(results)
    else:
        rows = [
            [str(r["line"]), r["kind"], "delivered" if r["told"] else "not reached"]
            for r in results
        ]
        print_table(["line", "kind", "result"], rows)
    if not results:
        raise ConfigError("the file that SCRAPER_ALERTS names holds no address")
    missed = sum(not result["told"] for result in results)
    if missed:
        raise ScraperError(
            f"{missed} of {len(results)} recipients were not reached (fix: "
            f"`apprise -vv --body test --config {settings.of(AlertsSettings).alerts}` says why)"
        )


def _send_test(settings: Settings) -> list[dict[str, Any]]:
    """Sends a test message to all recipients. Raises `ConfigError` if SCRAPER_ALERTS is unset, or
    its file has problems."""
    own = settings.of(AlertsSettings)
    if own.alerts is None:
        raise ConfigError("no alert is sent: SCRAPER_ALERTS is not set (docs/how-to/alerts.md)")
    recipients = recipient_list.load_recipients(own.alerts)
    if readable_by_all(own.alerts):
        click.echo(
            f"every user of this machine can read {own.alerts} (fix: chmod 600)",
            err=True,
        )
    reached = notify.send_notice(notify.make_test_notice(), recipients)
    return [
        {"line": recipient.line, "kind": recipient.kind, "told": recipient in reached}
        for recipient in recipients
    ]


def _show_matches(name: str, days: int, as_json: bool) -> None:
    settings, site = load_settings(), name.rpartition(".")[0]
    with open_engine().connect() as connection:
        rules = {rule.name: rule for rule in outbox.load_rules(connection, settings)}
    # The file is newer than the database until a coordinator has read it.
    definition = definition_in_file(settings, site) if site else None
    rules |= {
        rule.name: rule
        for rule in site_rules(site, definition.of(AlertsKeys).alerts if definition else ())
    }
    if name not in rules:
        raise NotFoundError(f"no rule is named {name!r}{did_you_mean(name, rules)}")
    matches = find_matches(open_engine(), rules[name], days)
    if as_json:
        print_json([match.details() for match in matches])
        return
    for match in matches:
        at = match.at.isoformat(timespec="minutes")
        click.echo(f"{at}  {one_line(match.message)}")
    click.echo(f"{len(matches):,} alerts in {days} days", err=True)
