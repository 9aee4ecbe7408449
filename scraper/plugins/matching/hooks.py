"""What the plug-in does where the core calls it."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from scraper.plugin import Hooks

SITE = "site = (SELECT name FROM sites WHERE id = :site_id)"
COUNT = sa.text(f"SELECT count(*) FROM offers WHERE {SITE}")
DELETE = sa.text(f"""
DELETE FROM offers WHERE id IN (SELECT id FROM offers WHERE {SITE} LIMIT :most)
""")
FORGET_WORDS = sa.text(f"DELETE FROM offer_postings WHERE {SITE}")


class MatchingHooks(Hooks):
    def count_site(self, connection: sa.Connection, site_id: int) -> Mapping[str, int]:
        return {"offers": int(connection.execute(COUNT, {"site_id": site_id}).scalar_one())}

    def delete_site(self, connection: sa.Connection, site_id: int, limit: int) -> int:
        values = {"site_id": site_id, "most": limit}
        deleted = connection.execute(DELETE, values).rowcount
        if deleted < limit:
            connection.execute(FORGET_WORDS, {"site_id": site_id})
        return deleted


HOOKS = MatchingHooks()
