"""what a promise needs, and why it is broken"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "site_plans",
        sa.Column(
            "needed",
            sa.Float(),
            server_default=sa.text("0"),
            nullable=False,
            comment="requests a day that the promise needs; 0: no promise",
        ),
    )
    op.add_column(
        "site_plans",
        sa.Column(
            "broken", sa.Text(), nullable=True, comment="why the contract is broken; null: it is kept"
        ),
    )


def downgrade() -> None:
    op.drop_column("site_plans", "broken")
    op.drop_column("site_plans", "needed")
