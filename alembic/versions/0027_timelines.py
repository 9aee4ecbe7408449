"""positions of the feed that are never given out twice, also after a failover or a restored backup"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

# A server that lost the last transactions would give out their positions again. So the first one who
# writes on another timeline, or in another database, moves the sequence beyond all former
# positions: to the time in millionths of a second's share, of which no server gives out more.
BEGIN_TIMELINE = """
CREATE FUNCTION begin_timeline() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    own text := concat_ws('/', (SELECT system_identifier FROM pg_control_system()),
                          left(pg_walfile_name(pg_current_wal_insert_lsn()), 8), TG_RELID);
    former text;
    position bigint;
BEGIN
    SELECT server INTO former FROM feed;
    IF former = own THEN
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('scraper: timeline'));
    SELECT server INTO former FROM feed FOR UPDATE;
    IF former IS DISTINCT FROM own THEN
        IF former IS NOT NULL THEN
            SELECT greatest(last_value + 1, CAST(floor(EXTRACT(EPOCH FROM clock_timestamp()))
                                                 AS bigint) << 20)
              INTO position FROM changes_id_seq;
            PERFORM setval('changes_id_seq', position);
        END IF;
        UPDATE feed SET server = own, began = coalesce(position, began);
    END IF;
    RETURN NULL;
END $$
"""


def upgrade() -> None:
    op.add_column(
        "feed",
        sa.Column(
            "server",
            sa.Text(),
            nullable=True,
            comment="system, timeline and table that gave out the last position",
        ),
    )
    op.add_column(
        "feed",
        sa.Column(
            "began",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="this server gave out all positions after it",
        ),
    )
    op.execute(BEGIN_TIMELINE)
    op.execute(
        "CREATE TRIGGER begin_timeline BEFORE INSERT ON changes EXECUTE FUNCTION begin_timeline()"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER begin_timeline ON changes")
    op.execute("DROP FUNCTION begin_timeline()")
    op.drop_column("feed", "began")
    op.drop_column("feed", "server")
