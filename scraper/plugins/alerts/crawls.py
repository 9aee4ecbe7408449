"""Sends alerts of crawls that are suspect or have failed.

A tick of the coordinator, apart from all that makes crawls go on: a recipient that does not answer
holds up nobody else. What could not be sent is left to a later tick.
"""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
import structlog

from scraper.domain import CrawlStatus, Message
from scraper.errors import ConfigError
from scraper.plugins.alerts import notify
from scraper.plugins.alerts import store as alert_store
from scraper.plugins.alerts.notify import Notice
from scraper.plugins.alerts.settings import AlertsSettings
from scraper.quality import report as reports
from scraper.quality.report import Report
from scraper.settings import Settings, readable_by_all

log = structlog.get_logger()

# A tick begins no other alert after this time.
AT_ONCE_S = 60.0
SHOWN = 20

_complained: set[str] = set()


def alert(engine: sa.Engine, settings: Settings) -> list[Message]:
    """One tick. Returns nothing to send."""
    with engine.begin() as connection:
        due = alert_store.due(connection)
    recipients = [one for one in recipients_of(settings) if not one.names] if due else []
    latest = time.monotonic() + AT_ONCE_S
    while recipients and time.monotonic() < latest and _send_next(engine, recipients):
        pass
    return []


def recipients_of(settings: Settings) -> list[notify.Recipient]:
    """None where nobody is to be told, or the list is wrong: that is said once for each state of
    it."""
    own = settings.of(AlertsSettings)
    if own.alerts is None:
        return []
    try:
        recipients = notify.recipients(own.alerts)
    except ConfigError as error:
        _complain("the list of those who are told of crawls is wrong; nobody is", str(error))
        return []
    if readable_by_all(own.alerts):
        _complain(
            "the list of those who are told of crawls can be read by every user of this machine",
            "chmod 600",
        )
    return recipients


def _complain(complaint: str, problems: str) -> None:
    if problems not in _complained:
        _complained.add(problems)
        log.error(complaint, problems=problems.splitlines()[:20])


def _send_next(engine: sa.Engine, recipients: list[notify.Recipient]) -> bool:
    with engine.begin() as connection:
        claimed = alert_store.claim(connection)
    if claimed is None:
        return False
    with engine.connect() as connection:
        report = reports.read_report(connection, claimed.crawl_id)
    reached, unreached = notify.send_missing(notice_of(report), recipients, claimed.delivered)
    with engine.begin() as connection:
        alert_store.sent(connection, claimed, reached, unreached)
    event: dict[str, Any] = {"crawl": claimed.crawl_id, "site": report.site, "told": len(reached)}
    if unreached:
        log.error(
            "alert not delivered to all", **event, unreached=unreached, attempts=claimed.attempts
        )
    else:
        log.info("alert sent", **event)
    return True


def notice_of(report: Report) -> Notice:
    """What people read, and what a webhook's program does."""
    verdict = "failed" if report.status == CrawlStatus.FAILED else "is suspect"
    lines = [f"Crawl {report.crawl_id} of {report.site} {verdict}: {report.products_phrase}."]
    if report.note:
        lines.append(f"Note: {report.note}")
    for reason in report.reasons[:SHOWN]:
        lines.append(f"- {reason['field'] or 'products'}: {reason['text']}")
        selector = report.selector(reason["field"]) if reason["field"] else None
        if selector:
            lines.append(f"  read by {selector}")
        lines += [
            f"  such as {example['url']}"
            for example in report.examples.get(reason["field"] or "", [])[:1]
        ]
    if report.suspect:
        lines.append("Nothing was delisted, and what is not believed is held.")
    lines.append(f"More: scraper report {report.crawl_id}")
    details = {
        "crawl": report.crawl_id,
        "site": report.site,
        "status": report.status,
        "suspect": report.suspect,
        "note": report.note,
        "reasons": report.reasons,
    }
    return Notice(f"{report.site}: crawl {report.crawl_id} {verdict}", "\n".join(lines), details)
