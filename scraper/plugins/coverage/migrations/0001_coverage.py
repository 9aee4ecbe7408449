"""claims, the coverage of crawls, and sitemap entries"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coverage_claims",
        sa.Column("crawl_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("page_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False, comment="list, sitemap or platform"),
        sa.Column(
            "list_url", sa.Text(), nullable=False, comment="a list's URL without the page's number"
        ),
        sa.Column("claimed", sa.Integer(), nullable=True, comment="products that the page counts"),
        sa.Column("named", sa.Integer(), nullable=False, comment="products that the page names"),
        sa.PrimaryKeyConstraint("crawl_id", "page_id", name="coverage_claims_pkey"),
    )
    op.create_index("coverage_claims_site_id_idx", "coverage_claims", ["site_id"])
    op.create_table(
        "crawl_coverage",
        sa.Column("crawl_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("products", sa.Integer(), nullable=False),
        sa.Column("expected", sa.Integer(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column(
            "moved", sa.Integer(), nullable=True, comment="products read whose lastmod has moved"
        ),
        sa.Column("moved_changed", sa.Integer(), nullable=True, comment="of these: changed"),
        sa.Column(
            "changed", sa.Integer(), nullable=True, comment="changed products that a sitemap names"
        ),
        sa.PrimaryKeyConstraint("crawl_id", name="crawl_coverage_pkey"),
    )
    op.create_index("crawl_coverage_site_id_idx", "crawl_coverage", ["site_id"])
    op.create_table(
        "sitemap_entries",
        sa.Column("site_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("fingerprint", sa.Uuid(), nullable=False, comment="as in pages"),
        sa.Column("lastmod", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "earlier", sa.DateTime(timezone=True), nullable=True, comment="before it moved"
        ),
        sa.Column(
            "moved_crawl",
            sa.BigInteger(),
            nullable=True,
            comment="the last crawl in which it had moved",
        ),
        sa.Column(
            "crawl_id", sa.BigInteger(), nullable=False, comment="the last crawl that read it"
        ),
        sa.PrimaryKeyConstraint("site_id", "fingerprint", name="sitemap_entries_pkey"),
    )


def downgrade() -> None:
    for table in ("sitemap_entries", "crawl_coverage", "coverage_claims"):
        op.drop_table(table)
