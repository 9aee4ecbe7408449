"""which texts of the log are masked"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "definition_changes",
        sa.Column(
            "masked",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="true: secrets are masked in both texts, which cannot be restored",
        ),
    )
    # Only this file was masked before. No site's name has a space.
    op.execute("UPDATE definition_changes SET masked = true WHERE site = 'alert recipients'")


def downgrade() -> None:
    op.drop_column("definition_changes", "masked")
