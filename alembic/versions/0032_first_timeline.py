"""the server that gives out the first position is known before it does"""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None
compatible_from = "0030"


def upgrade() -> None:
    # As `begin_timeline` computes it. A standby that lost the first transaction would otherwise take
    # the feed for a new one, and give out its positions again.
    op.execute(
        "UPDATE feed SET server = concat_ws('/', (SELECT system_identifier FROM pg_control_system()),"
        " left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),"
        " CAST(CAST('changes' AS regclass) AS oid)) WHERE server IS NULL"
    )


def downgrade() -> None:
    """What it filled in is what the first change would."""
