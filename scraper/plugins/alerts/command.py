"""`scraper alerts`: the rules of price alerts, what they would have told, and who is told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import sqlalchemy as sa

from scraper.actions.crawls import definition_in_file
from scraper.cli.common.shared import json_option, load_settings, open_engine, print_json
from scraper.cli.common.tables import plain, print_table
from scraper.domain import CrawlStatus
from scraper.errors import ConfigError, CursorError, NotFoundError, ScraperError, did_you_mean
from scraper.feed import reader as feed
from scraper.feed import store
from scraper.plugins.alerts import notify
from scraper.plugins.alerts.keys import AlertsKeys
from scraper.plugins.alerts.notify import Notice
from scraper.plugins.alerts.prices import outbox
from scraper.plugins.alerts.prices.rules import Hit, Rule, of_site
from scraper.plugins.alerts.settings import AlertsSettings
from scraper.settings import Settings, readable_by_all


@click.group(invoke_without_command=True)
@json_option("array")
@click.pass_context
def alerts(context: click.Context, as_json: bool) -> None:
    """Show the rules of price alerts, and their alerts of the last week."""
    if context.invoked_subcommand is not None:
        return
    with open_engine().connect() as connection:
        rules, states = outbox.load(connection, load_settings()), outbox.states(connection)
    if not rules:
        raise ConfigError(
            "there are no rules: neither `alerts:` in a definition, nor SCRAPER_ALERT_RULES "
            "(docs/how-to/alerts.md)"
        )
    rows = [_state(rule, states.get(rule.name)) for rule in rules]
    if as_json:
        print_json(rows)
        return
    columns = ["rule", "when", "of", "to", "alerts", "waiting", "last", "problem"]
    print_table(columns, [[plain(str(row[key] or "")) for key in columns] for row in rows])


def _state(rule: Rule, state: sa.Row[Any] | None) -> dict[str, Any]:
    scope = [rule.site, rule.id, *(f"{key}={value}" for key, value in rule.where.items())]
    return {
        "rule": rule.name,
        "when": rule.when,
        "of": " ".join(part for part in scope if part) or "all",
        "to": ", ".join(rule.to) or "all without a name",
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
    """Send a test message to all recipients (SCRAPER_ALERTS), and show who got it; exit 1 unless
    all did. With RULE, show what it would have sent, and send nothing."""
    if rule is not None:
        _show_told(rule, days, as_json)
        return
    settings = load_settings()
    results = _send_test(settings)
    if as_json:
        print_json(results)
    else:
        rows = [
            [str(r["line"]), r["kind"], "told" if r["told"] else "not reached"] for r in results
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
    """Tells everybody on the list that this is a test. Raises `ConfigError` where there is no list,
    or a wrong one."""
    own = settings.of(AlertsSettings)
    if own.alerts is None:
        raise ConfigError(
            "nobody is told of anything: SCRAPER_ALERTS names no file (docs/how-to/alerts.md)"
        )
    recipients = notify.recipients(own.alerts)
    if readable_by_all(own.alerts):
        click.echo(
            f"{own.alerts} can be read by every user of this machine (fix: chmod 600)",
            err=True,
        )
    details: dict[str, Any] = {
        "crawl": None,
        "site": None,
        "status": CrawlStatus.COMPLETED,
        "suspect": False,
        "reasons": [],
    }
    notice = Notice(
        "scraper: a test", "Alerts of suspect and failed crawls come here.", details, False
    )
    reached = notify.send(notice, recipients)
    return [
        {"line": recipient.line, "kind": recipient.kind, "told": recipient in reached}
        for recipient in recipients
    ]


def _show_told(name: str, days: int, as_json: bool) -> None:
    settings, site = load_settings(), name.rpartition(".")[0]
    with open_engine().connect() as connection:
        rules = {rule.name: rule for rule in outbox.load(connection, settings)}
    # A rule is tried as it is written now, before a coordinator has taken it over.
    written = definition_in_file(settings, site) if site else None
    rules |= {
        rule.name: rule for rule in of_site(site, written.of(AlertsKeys).alerts if written else ())
    }
    if name not in rules:
        raise NotFoundError(f"there is no rule {name!r}{did_you_mean(name, rules)}")
    told = _told(open_engine(), rules[name], days)
    if as_json:
        print_json([hit.details() for hit in told])
        return
    for hit in told:
        click.echo(f"{hit.change.at.isoformat(timespec='minutes')}  {plain(hit.line)}")
    click.echo(f"{len(told):,} alerts in {days} days", err=True)


def _told(engine: sa.Engine, rule: Rule, days: int) -> list[Hit]:
    since: feed.Since = datetime.now(UTC) - timedelta(days=days)
    try:
        cursor = feed.resolve_cursor(engine, since)
    except CursorError:
        cursor = feed.resolve_cursor(engine, "oldest")
    end, told = store.current_cursor(engine), list[Hit]()
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        reader = feed.ChangeReader(connection, cursor)
        while reader.cursor < end:
            told += outbox.hits(connection, [rule], reader.next())
    return told
