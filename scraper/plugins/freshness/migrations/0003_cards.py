"""cards of listings, and what they signal"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def time(name: str, comment: str | None = None) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False, comment=comment)


def flag(name: str, comment: str) -> sa.Column[object]:
    return sa.Column(
        name, sa.Boolean(), server_default=sa.text("false"), nullable=False, comment=comment
    )


def upgrade() -> None:
    op.create_table(
        "page_cards",
        sa.Column("site_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.Uuid(), nullable=False, comment="as in pages"),
        sa.Column("prices", postgresql.ARRAY(sa.Numeric()), nullable=False),
        sa.Column("available", sa.Boolean(), nullable=True),
        flag("stock_changed", "the last change was of what is available"),
        time("changed_at"),
        time("quiet_until", "when it was last read before it changed"),
        time("read_at"),
        sa.PrimaryKeyConstraint("site_id", "fingerprint", name="page_cards_pkey"),
        postgresql_with={"fillfactor": 80},
    )
    op.add_column("page_visits", flag("signalled", "a card has changed since the last look"))
    op.add_column(
        "site_plans",
        sa.Column(
            "cards",
            postgresql.ARRAY(sa.Float()),
            server_default=sa.text("'{0,0,0,0}'"),
            nullable=False,
            comment="signals of cards: right, wrong, missed, wrong by chance",
        ),
    )


def downgrade() -> None:
    op.drop_column("site_plans", "cards")
    op.drop_column("page_visits", "signalled")
    op.drop_table("page_cards")
