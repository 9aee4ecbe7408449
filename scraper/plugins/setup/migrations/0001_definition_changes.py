"""the log of changed definitions"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "definition_changes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("changed_by", sa.Text(), nullable=False),
        sa.Column("site", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False, comment="added, changed or undone"),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column(
            "before", sa.Text(), nullable=True, comment="the file's text; null: there was none"
        ),
        sa.Column(
            "after", sa.Text(), nullable=True, comment="likewise; null: the file was removed"
        ),
        sa.PrimaryKeyConstraint("id", name="definition_changes_pkey"),
    )
    op.create_index("definition_changes_site_idx", "definition_changes", ["site", "id"])


def downgrade() -> None:
    op.drop_table("definition_changes")
