"""Time, moved and not waited for: of Bloom filters, and of all that has happened."""

from __future__ import annotations

import json

import redis
import sqlalchemy as sa

from scraper.plugins.dedup.bloom import PREFIX


def age_filters(url: str, by_s: float) -> int:
    """As if every filter had been made so much earlier. Returns how many there are."""
    with redis.Redis.from_url(url) as client:
        keys = [key for key in client.scan_iter(match=f"{PREFIX}*") if key.count(b":") == 3]
        for key in keys:
            state = json.loads(client.get(key) or b"")
            for gen in state["gens"]:
                gen["began"] -= round(by_s * 1000)
                gen["ends"] -= round(by_s * 1000)
            client.set(key, json.dumps(state), keepttl=True)
        return len(keys)


def age(engine: sa.Engine, hours: float) -> None:
    """All that has happened was that much earlier."""
    past = f"interval '{hours} hours'"
    with engine.begin() as connection:
        for table, columns in {
            "pages": ("fetched_at", "read_at", "settled_at"),
            "page_visits": ("looked_at", "next_visit"),
            "products": ("fetched_at", "changed_at", "first_seen_at"),
            "crawls": (
                "created_at",
                "started_at",
                "finished_at",
                "slot",
                "fresh_after",
                "stale_before",
                "whole_before",
            ),
        }.items():
            changes = ", ".join(f"{column} = {column} - {past}" for column in columns)
            connection.execute(sa.text(f"UPDATE {table} SET {changes}"))
