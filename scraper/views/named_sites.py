"""Finds the sites that a command names in the database, with their stored definitions."""

from __future__ import annotations

import sqlalchemy as sa

from scraper.errors import NotFoundError, did_you_mean
from scraper.frontier import sites

FIELDS = sa.text("""
SELECT f.key AS name, f.value ->> 'type' AS type
  FROM sites s, json_each(s.definition -> 'product' -> 'fields') AS f WHERE s.name = :name
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
    return f"`scraper crawl {name}` adds it" + did_you_mean(name, sites.site_names(connection))


def no_site(name: str, hint: str = "`scraper status` shows those crawled") -> NotFoundError:
    return NotFoundError(f"no site named {name!r} in the database; {hint}")
