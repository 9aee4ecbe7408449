"""Sends alerts about crawls that are suspect or have failed.

It is a tick of its own, so that a recipient that does not answer never delays crawls. A later tick
sends again what could not be delivered.
"""

from __future__ import annotations

import time
from typing import Any

import sqlalchemy as sa
import structlog

from scraper.domain import CrawlStatus
from scraper.errors import ConfigError
from scraper.infra.secret_files import readable_by_all
from scraper.plugins.alerts import store as alert_store
from scraper.plugins.alerts.mail import write_crawl
from scraper.plugins.alerts.sending import notify
from scraper.plugins.alerts.sending import recipients as recipient_list
from scraper.plugins.alerts.sending.notify import Notice
from scraper.plugins.alerts.sending.recipients import Recipient
from scraper.plugins.alerts.settings import AlertsSettings
from scraper.quality import report as reports
from scraper.quality.report import Report
from scraper.settings import Settings

log = structlog.get_logger()

# A tick starts no further alert after this time.
AT_ONCE_S = 60.0
REASONS_SHOWN = 20

_logged_problems: set[str] = set()


def alert_crawls(engine: sa.Engine, settings: Settings) -> None:
    """Sends the alerts that are due, as one tick."""
    with engine.begin() as connection:
        due = alert_store.has_due(connection)
    if not due:
        return
    recipients = [recipient for recipient in read_recipients(settings) if not recipient.names]
    if not recipients:
        with engine.begin() as connection:
            alert_store.drop_old(connection)
    latest = time.monotonic() + AT_ONCE_S
    while (
        recipients
        and time.monotonic() < latest
        and _send_next(engine, recipients, settings.of(AlertsSettings).alert_tab)
    ):
        pass


def read_recipients(settings: Settings) -> list[Recipient]:
    """Returns the list of recipients: empty if SCRAPER_ALERTS names none, or if the list has
    problems, which are logged once."""
    own = settings.of(AlertsSettings)
    if own.alerts is None:
        return []
    try:
        recipients = recipient_list.load_recipients(own.alerts)
    except ConfigError as error:
        _log_problem("the list of alert recipients has problems; no alert is sent", str(error))
        return []
    if readable_by_all(own.alerts):
        _log_problem(
            "every user of this machine can read the list of alert recipients", "chmod 600"
        )
    return recipients


def _log_problem(event: str, problems: str) -> None:
    if problems not in _logged_problems:
        _logged_problems.add(problems)
        log.error(event, problems=problems.splitlines()[:20])


def _send_next(engine: sa.Engine, recipients: list[Recipient], tab: str) -> bool:
    with engine.begin() as connection:
        claimed = alert_store.claim_next(connection)
    if claimed is None:
        return False
    with engine.connect() as connection:
        report = reports.read_report(connection, claimed.crawl_id)
    reached, parts, unreached = notify.send_missing(
        make_notice(report, tab), recipients, claimed.delivered
    )
    with engine.begin() as connection:
        alert_store.record_delivery(connection, claimed, [*reached, *parts], unreached)
    event: dict[str, Any] = {
        "crawl": claimed.crawl_id,
        "site": report.site,
        "delivered": len(reached),
    }
    if unreached:
        log.error(
            "alert not delivered to all", **event, unreached=unreached, attempts=claimed.attempts
        )
    else:
        log.info("alert sent", **event)
    return True


def make_notice(report: Report, tab: str = "") -> Notice:
    """Makes the message for people, and the details for a webhook's program. A mail has links to
    the Crawls tab if `tab` is its address."""
    verdict = "failed" if report.status == CrawlStatus.FAILED else "is suspect"
    lines = [f"Crawl {report.crawl_id} of {report.site} {verdict}: {report.products_phrase}."]
    if report.suspect and report.suspicions:
        lines += report.answers
    if report.note:
        lines.append(f"Note: {report.note}")
    for reason in report.reasons[:REASONS_SHOWN]:
        lines.append(f"- {reason['field'] or 'products'}: {reason['text']}")
        selector = report.selector(reason["field"]) if reason["field"] else None
        if selector:
            lines.append(f"  read by {selector}")
        lines += [
            f"  such as {example['url']}"
            for example in report.examples.get(reason["field"] or "", [])[:1]
        ]
    lines.append(f"More: scraper report {report.crawl_id}")
    details = {
        "crawl": report.crawl_id,
        "site": report.site,
        "status": report.status,
        "suspect": report.suspect,
        "note": report.note,
        "reasons": report.reasons,
    }
    title = f"{report.site}: crawl {report.crawl_id} {verdict}"
    mail = write_crawl(title, lines, report.crawl_id, tab)
    return Notice(title, "\n".join(lines), details, mail=mail)
