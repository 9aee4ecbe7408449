"""Sites in PostgreSQL: the newest valid definition of each, as the coordinators and the command
line read it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from scraper.infra.database import dumps, rows_as

if TYPE_CHECKING:
    from scraper.sites.definition import Site

# A changed schedule counts from the change on: earlier slots of the new cron are not made up.
SYNC = sa.text("""
INSERT INTO sites AS s (name, definition, definition_hash, enabled)
SELECT name, definition, hash, enabled
  FROM json_to_recordset(CAST(:rows AS json))
    AS i(name text, definition json, hash text, enabled bool)
 ORDER BY name
ON CONFLICT (name) DO UPDATE
   SET definition = excluded.definition, definition_hash = excluded.definition_hash,
       enabled = excluded.enabled,
       updated_at = now(),
       scheduled_since = CASE
           WHEN s.enabled AND s.definition ->> 'schedule' IS NOT DISTINCT
            FROM excluded.definition ->> 'schedule'
            AND s.definition ->> 'timezone' IS NOT DISTINCT FROM excluded.definition ->> 'timezone'
           THEN s.scheduled_since ELSE now() END
 WHERE s.definition_hash <> excluded.definition_hash OR s.enabled <> excluded.enabled
""")

RETIRE = sa.text("""
UPDATE sites SET enabled = false, updated_at = now()
 WHERE enabled AND NOT (name = ANY (:kept)) RETURNING name
""")

SET_PAUSED = sa.text("""
UPDATE sites SET paused = :paused, scheduled_since = CASE WHEN :paused THEN scheduled_since
                                                          ELSE now() END
 WHERE name = :name
""")

SCHEDULED = sa.text("""
SELECT s.id, s.name, s.definition, s.scheduled_since, now() AS now,
       (SELECT max(c.slot) FROM crawls c
               WHERE c.site_id = s.id AND c.trigger = 'schedule') AS last_slot
  FROM sites s
 WHERE s.enabled AND NOT s.paused AND s.definition ->> 'schedule' IS NOT NULL
 ORDER BY s.id
""")


class ScheduledSite(NamedTuple):
    """A site with a schedule, and the times that decide its latest due slot: the database's, in
    UTC."""

    id: int
    name: str
    definition: dict[str, Any]
    scheduled_since: datetime
    now: datetime
    last_slot: datetime | None


def store_definitions(connection: sa.Connection, sites: Sequence[Site]) -> None:
    """Stores the definitions that are new or changed. The others cost one comparison each."""
    rows = []
    for site in sites:
        row = {"name": site.name, "definition": site.model_dump(mode="json")}
        rows.append(row | {"hash": site.content_hash, "enabled": site.enabled})
    if rows:
        connection.execute(SYNC, {"rows": dumps(rows)})


def retire_all_but(connection: sa.Connection, names: Sequence[str]) -> list[str]:
    """Disables all sites except `names`, whose definitions still exist. Their data stays. Returns
    which were disabled."""
    return list(connection.execute(RETIRE, {"kept": list(names)}).scalars())


def scheduled_sites(connection: sa.Connection) -> list[ScheduledSite]:
    return rows_as(ScheduledSite, connection.execute(SCHEDULED))


def pause_site(connection: sa.Connection, name: str) -> bool | None:
    """Pauses a site. Returns False if it was paused before, None if it does not exist."""
    return _set_paused(connection, name, paused=True)


def resume_site(connection: sa.Connection, name: str) -> bool | None:
    """Ends a pause. Slots that came due during the pause are not made up: the operator did not
    want them. Returns as `pause_site` does."""
    return _set_paused(connection, name, paused=False)


def paused_names(connection: sa.Connection) -> list[str]:
    query = sa.text("SELECT name FROM sites WHERE paused ORDER BY name")
    return list(connection.execute(query).scalars())


def is_paused(connection: sa.Connection, site_id: int) -> bool:
    query = sa.text("SELECT paused FROM sites WHERE id = :id")
    return bool(connection.execute(query, {"id": site_id}).scalar())


def _set_paused(connection: sa.Connection, name: str, *, paused: bool) -> bool | None:
    query = sa.text("SELECT paused FROM sites WHERE name = :name FOR UPDATE")
    before = connection.execute(query, {"name": name}).scalar()
    if before is None or before is paused:
        return None if before is None else False
    connection.execute(SET_PAUSED, {"name": name, "paused": paused})
    return True


def find_site(connection: sa.Connection, name: str) -> tuple[int, Site] | None:
    # Imported late: most commands that name a site do not need its definition.
    from scraper.sites.definition import Site

    query = sa.text("SELECT id, definition FROM sites WHERE name = :name")
    row = connection.execute(query, {"name": name}).first()
    return (row.id, Site.model_validate(row.definition)) if row else None


def site_names(connection: sa.Connection) -> list[str]:
    return list(connection.execute(sa.text("SELECT name FROM sites ORDER BY name")).scalars())


def look_up(connection: sa.Connection, name: str) -> tuple[int, str, bool] | None:
    """Returns a site's id, its definition's hash, and whether it is paused."""
    query = sa.text("SELECT id, definition_hash, paused FROM sites WHERE name = :name")
    row = connection.execute(query, {"name": name}).first()
    return (row.id, row.definition_hash, row.paused) if row else None
