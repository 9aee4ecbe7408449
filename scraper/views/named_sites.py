"""Finds the sites that a command names in the database, with their stored definitions."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from scraper.errors import NotFoundError, did_you_mean, quote_command
from scraper.frontier import sites

FIELDS = sa.text("""
SELECT f.key AS name, f.value ->> 'type' AS type
  FROM sites s, json_each(s.definition -> 'product' -> 'fields') AS f WHERE s.name = :name
""")

# A replay's and a re-extraction's pages are some of a site's.
SIZES = sa.text("""
SELECT DISTINCT ON (s.id) s.name, c.discovery_total + c.product_total AS pages
  FROM crawls c JOIN sites s ON s.id = c.site_id
 WHERE s.name = ANY (:names) AND c.status = 'completed' AND c.trigger IN ('schedule', 'manual')
 ORDER BY s.id, c.id DESC
""")


def require_site(connection: sa.Connection, name: str | None) -> None:
    """Raises `NotFoundError` where a site is named that is not in the database."""
    if name is not None and sites.look_up(connection, name) is None:
        raise no_site(name, nearest(connection, name))


def field_types(connection: sa.Connection, name: str) -> dict[str, str]:
    """The types of a site's fields, in the definition's order. Raises `NotFoundError`."""
    require_site(connection, name)
    return {row.name: row.type for row in connection.execute(FIELDS, {"name": name})}


def nearest(connection: sa.Connection, name: str) -> str:
    """Returns the hint for a site that is not in the database."""
    command, names = quote_command("scraper crawl", name), sites.site_names(connection)
    return f"`{command}` adds it" + did_you_mean(name, names)


def no_site(name: str, hint: str = "`scraper status` shows those crawled") -> NotFoundError:
    return NotFoundError(f"no site named {name!r} in the database; {hint}")


def last_sizes(connection: sa.Connection, names: Sequence[str]) -> dict[str, int]:
    """Returns the number of pages of each site's newest complete crawl."""
    return {row.name: row.pages for row in connection.execute(SIZES, {"names": list(names)})}
