"""Where the core calls the plug-in `alerts`."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from scraper.plugin import Hooks
from scraper.plugins.alerts import store

FORGET = sa.text("DELETE FROM price_alerts WHERE change_id = ANY (:ids)")


class AlertsHooks(Hooks):
    def flag_crawl(self, connection: sa.Connection, crawl_id: int) -> None:
        store.queue_alert(connection, crawl_id)

    def forget_changes(self, connection: sa.Connection, change_ids: Sequence[int]) -> None:
        connection.execute(FORGET, {"ids": list(change_ids)})


HOOKS = AlertsHooks()
