"""Time for Bloom filters, moved and not waited for."""

from __future__ import annotations

import json

import redis

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
