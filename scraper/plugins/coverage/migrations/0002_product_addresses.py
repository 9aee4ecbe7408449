"""the address at which a product is read"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "product_addresses",
        sa.Column("site_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False, comment="as the address gives it"),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Uuid(), nullable=False, comment="as in pages"),
        sa.Column(
            "crawl_id",
            sa.BigInteger(),
            nullable=False,
            comment="the last crawl that found it linked",
        ),
        sa.PrimaryKeyConstraint("site_id", "external_id", name="product_addresses_pkey"),
    )


def downgrade() -> None:
    op.drop_table("product_addresses")
