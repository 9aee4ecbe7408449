"""The feed as a source of dlt: each change once and in order, into any of dlt's destinations.

    python docs/dlt_feed.py postgresql://scraper@/scraper?host=/…/.scraper/run

loads what has come since the last run into ./shops.duckdb. Run it as often as you like, and kill it
when you like: how far it has come is stored with what was loaded.

After a failover that lost changes it ends with an error that names the last common cursor. With
this cursor as the second word, it deletes what was loaded after it and goes on from there.
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
    database_url: str, since: int | None = None, site: str | None = None
) -> Iterator[dict[str, Any]]:
    engine = make_engine(database_url)
    # Is stored with the rows.
    state = dlt.current.resource_state()
    start = state.get("cursor", "oldest") if since is None else since
    for change in reader.read(engine, start, site=site, say=_print_warning):
        yield json.loads(change.json())
        state["cursor"] = change.cursor


def _print_warning(text: str) -> None:
    print(text, file=sys.stderr)


def load(database_url: str, since: int | None = None) -> None:
    pipeline = dlt.pipeline(
        "scraper_feed",
        destination=dlt.destinations.duckdb("shops.duckdb"),
        dataset_name="feed",
    )
    # What a killed run has read is loaded first; only then is the feed read on from there.
    pipeline.run()
    if since is not None:
        with pipeline.sql_client() as client:
            client.execute_sql("DELETE FROM changes WHERE cursor > %s", since)
    print(pipeline.run(changes(database_url, since)))


if __name__ == "__main__":
    load(sys.argv[1], *map(int, sys.argv[2:]))
