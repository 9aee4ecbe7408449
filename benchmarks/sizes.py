"""What PostgreSQL keeps: bytes of tables and of their indexes, dead rows, vacuums, WAL."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

TABLES = ("pages", "products", "product_versions")

SIZES = sa.text("""
SELECT c.relname AS name, pg_table_size(c.oid) AS table_bytes, pg_indexes_size(c.oid) AS index_bytes,
       s.n_live_tup AS live, s.n_dead_tup AS dead, s.n_tup_upd AS updated, s.n_tup_hot_upd AS hot,
       s.autovacuum_count AS vacuums
  FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid
 WHERE c.relname = ANY (:tables)
""")

INDEXES = sa.text("""
SELECT indexrelname AS name, pg_relation_size(indexrelid) AS bytes FROM pg_stat_user_indexes WHERE relname = 'pages'
""")


@dataclass(frozen=True)
class TableSize:
    """One table, as its statistics say; `table_bytes` includes what is stored out of line."""

    name: str
    table_bytes: int
    index_bytes: int
    live: int
    dead: int
    updated: int
    hot: int
    vacuums: int


def sizes_of(engine: sa.Engine) -> dict[str, TableSize]:
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT pg_stat_force_next_flush(), pg_stat_clear_snapshot()"))
    with engine.connect() as connection:
        rows = connection.execute(SIZES, {"tables": list(TABLES)}).mappings()
        return {row["name"]: TableSize(**row) for row in rows}


def index_sizes(engine: sa.Engine) -> dict[str, int]:
    with engine.connect() as connection:
        return {row.name: row.bytes for row in connection.execute(INDEXES)}


def wal_bytes(engine: sa.Engine) -> int:
    """Of write-ahead log so far."""
    with engine.connect() as connection:
        return int(
            connection.execute(sa.text("SELECT pg_current_wal_insert_lsn() - '0/0'")).scalar() or 0
        )
