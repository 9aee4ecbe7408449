"""What a tick reads of price alerts does not grow faster than their number, not even while
PostgreSQL still takes the table for empty."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from scraper.plugins.alerts.prices import outbox
from tests.support.making import a_site, open_crawl
from tests.support.plans import rows_read, take_tables_for_empty

ALERTS = 300
ROWS_AN_ALERT = 50
FILL = """
INSERT INTO price_alerts (rule, change_id, crawl_id, details, not_before)
SELECT 'one', n, :crawl, '{}', now() FROM generate_series(1, :alerts) n
"""


@pytest.mark.usefixtures("own_database")
def test_no_statement_reads_all_alerts_for_each(engine: sa.Engine) -> None:
    _, crawl_id = open_crawl(engine, a_site())
    with engine.begin() as connection:
        take_tables_for_empty(connection)
        connection.execute(sa.text(FILL), {"crawl": crawl_id, "alerts": ALERTS})
    values = {"unread": False, "oldest": "1 day", "expired": "old", "rejected": "rejected"}
    with rows_read(engine) as read, engine.begin() as connection:
        connection.execute(outbox.DROP, values)
        claimed = connection.execute(outbox.CLAIM, {"most": ALERTS}).all()
    assert len(read) == 2 and len(claimed) == ALERTS
    assert {s: rows for s, rows in read.items() if rows > ROWS_AN_ALERT * ALERTS} == {}
