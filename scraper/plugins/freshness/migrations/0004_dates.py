"""dates of sitemaps, and what they signal"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def time(name: str, comment: str | None = None) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, comment=comment)


def upgrade() -> None:
    op.create_table(
        "page_dates",
        sa.Column("site_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.Uuid(), nullable=False, comment="as in pages"),
        time("lastmod"),
        time("moved_at", "when it was first read as it is"),
        time("quiet_until", "when it was last read before it moved"),
        time("read_at"),
        sa.PrimaryKeyConstraint("site_id", "fingerprint", name="page_dates_pkey"),
        postgresql_with={"fillfactor": 80},
    )
    op.add_column(
        "page_visits",
        sa.Column(
            "dated",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="a sitemap's date is later than the last look",
        ),
    )
    op.add_column(
        "site_plans",
        sa.Column(
            "dates",
            postgresql.ARRAY(sa.Float()),
            server_default=sa.text("'{0,0,0,0}'"),
            nullable=False,
            comment="signals of sitemaps' dates: right, wrong, missed, wrong by chance",
        ),
    )


def downgrade() -> None:
    op.drop_column("site_plans", "dates")
    op.drop_column("page_visits", "dated")
    op.drop_table("page_dates")
