"""pictures of products that were looked at"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "product_pictures",
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("url_hash", sa.LargeBinary(), nullable=False, comment="SHA-256"),
        sa.Column(
            "fetched_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("media_type", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("size", sa.Integer(), nullable=False, comment="of the body, in bytes"),
        sa.Column("problem", sa.Text(), nullable=True, comment="why there is no picture"),
        sa.ForeignKeyConstraint(
            ["site_id"], ["sites.id"], name="product_pictures_site_id_fkey", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("site_id", "url_hash", name="product_pictures_pkey"),
    )


def downgrade() -> None:
    op.drop_table("product_pictures")
