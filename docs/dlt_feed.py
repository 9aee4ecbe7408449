"""The feed as a source of dlt: each change once and in order, into any of dlt's destinations.

    python docs/dlt_feed.py postgresql+psycopg://scraper@/scraper?host=/…/.scraper/run

loads what has come since the last run into ./shops.duckdb. Run it as often as you like, and kill it
when you like: how far it has come is stored with what was loaded.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import dlt

from scraper.feed import reader
from scraper.infra.database import make_engine


@dlt.resource(
    # What a killed run has loaded already, the next one replaces.
    primary_key="cursor",
    write_disposition="merge",
    max_table_nesting=0,
    columns={"data": {"data_type": "json"}, "before": {"data_type": "json"}},
)
def changes(
    database_url: str,
    site: str | None = None,
    cursor: dlt.sources.incremental[int] = dlt.sources.incremental("cursor"),  # noqa: B008
) -> Iterator[dict[str, Any]]:
    engine = make_engine(database_url)
    since = "oldest" if cursor.last_value is None else cursor.last_value
    for change in reader.read(engine, since, site=site):
        yield json.loads(change.json())


def load(database_url: str) -> None:
    pipeline = dlt.pipeline(
        "scraper_feed",
        destination=dlt.destinations.duckdb("shops.duckdb"),
        dataset_name="feed",
    )
    # What a killed run has read is loaded first; only then is the feed read on from there.
    pipeline.run()
    print(pipeline.run(changes(database_url)))


if __name__ == "__main__":
    load(sys.argv[1])
