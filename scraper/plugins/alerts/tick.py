"""The tick of the plug-in `alerts`."""

from __future__ import annotations

import sqlalchemy as sa

from scraper.domain import Message
from scraper.plugins.alerts.crawls import alert_crawls
from scraper.plugins.alerts.prices.outbox import alert_prices
from scraper.settings import Settings


def send_alerts(engine: sa.Engine, settings: Settings) -> list[Message]:
    """Sends alerts about crawls, then about prices. Returns an empty list: no task follows."""
    alert_crawls(engine, settings)
    return alert_prices(engine, settings)
