"""plans of sites, and visits of pages"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def floats(name: str, comment: str) -> sa.Column[Any]:
    return sa.Column(name, postgresql.ARRAY(sa.Float()), nullable=False, comment=comment)


def number(name: str, comment: str | None = None, default: str | None = None) -> sa.Column[Any]:
    server = sa.text(default) if default else None
    return sa.Column(name, sa.Float(), nullable=False, server_default=server, comment=comment)


def real(name: str, comment: str | None = None) -> sa.Column[Any]:
    return sa.Column(name, sa.REAL(), nullable=False, comment=comment)


def time(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False)


def upgrade() -> None:
    op.create_table(
        "site_plans",
        sa.Column("site_id", sa.Integer(), autoincrement=False, nullable=False),
        floats("allocation", "how requests are shared among pages"),
        number("mean_rate", "of changes a day"),
        number("requests", "a day, of all kinds; 0: not known yet"),
        number("visits", "of these: for product pages"),
        number("promised", "the share of products that is true"),
        time("planned_at"),
        sa.Column(
            "wanted",
            postgresql.JSONB(),
            nullable=False,
            comment="the keys of the definition for which it was made",
        ),
        floats("hours", "changes by hour (UTC)"),
        floats("days", "changes by weekday"),
        number("seen_days", "between looks", "0"),
        number("kept_days", "of these: what was stored was true; older ones fade", "0"),
        number("promise_days", "of these: it was true within the promised time", "0"),
        sa.Column(
            "hosts",
            sa.Integer(),
            server_default=sa.text("1"),
            nullable=False,
            comment="of the site's pages",
        ),
        sa.Column(
            "loaded",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="the last whole crawl whose pages are in",
        ),
        sa.PrimaryKeyConstraint("site_id", name="site_plans_pkey"),
    )
    op.create_table(
        "page_visits",
        sa.Column("page_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        real("changes", "looks that found one"),
        real("changed_days", "between looks with a change"),
        real("quiet_days", "between the others"),
        real("rate", "of changes a day"),
        real("weight"),
        sa.Column("content_hash", sa.Uuid(), nullable=True),
        time("looked_at"),
        time("next_visit"),
        sa.Column(
            "round_id", sa.BigInteger(), nullable=True, comment="the crawl that visits it now"
        ),
        sa.PrimaryKeyConstraint("page_id", name="page_visits_pkey"),
        postgresql_with={"fillfactor": 80},
    )
    op.create_index("page_visits_site_id_next_visit_idx", "page_visits", ["site_id", "next_visit"])
    op.create_index(
        "page_visits_round_id_idx",
        "page_visits",
        ["round_id"],
        postgresql_where=sa.text("round_id IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_table("page_visits")
    op.drop_table("site_plans")
