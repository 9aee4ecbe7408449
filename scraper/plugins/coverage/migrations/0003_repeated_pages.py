"""how many pages of a crawl repeat the product of another page"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "crawl_repeated_pages",
        sa.Column("crawl_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("pages", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("crawl_id", name="crawl_repeated_pages_pkey"),
    )
    op.create_index("crawl_repeated_pages_site_id_idx", "crawl_repeated_pages", ["site_id"])


def downgrade() -> None:
    op.drop_table("crawl_repeated_pages")
