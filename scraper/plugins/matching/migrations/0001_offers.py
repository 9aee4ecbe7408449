"""offers, links, events, and the state of linking"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = ("offer_links", "offers", "offer_words", "matching_state", "article_events")

# For people who ask with SQL: what each shop asks for each article that two shops sell.
VIEW = """
CREATE VIEW article_prices AS
SELECT o.article_id, o.site, o.external_id, o.title, o.price, o.currency, o.unit_price, o.unit,
       o.in_stock, o.url, o.gtin,
       min(o.price) FILTER (WHERE o.in_stock IS NOT FALSE) OVER shop AS best_price,
       rank() OVER (shop ORDER BY o.in_stock IS FALSE, o.price NULLS LAST) AS rank
  FROM offers o
 WHERE o.listed AND EXISTS (SELECT FROM offers s WHERE s.article_id = o.article_id
                                                   AND s.site <> o.site AND s.listed)
WINDOW shop AS (PARTITION BY o.article_id, o.currency)
"""


def upgrade() -> None:
    op.create_table(
        "article_events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("article_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "crawl_id",
            sa.BigInteger(),
            nullable=True,
            comment="of the last change; null: the own catalogue's",
        ),
        sa.Column("before", postgresql.JSONB(), nullable=False, comment="each shop's best offer"),
        sa.Column("after", postgresql.JSONB(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="article_events_pkey"),
    )
    op.create_index("article_events_article_id_idx", "article_events", ["article_id"])
    op.create_table(
        "matching_state",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            "position",
            sa.BigInteger(),
            nullable=True,
            comment="in the feed; null: products are being loaded",
        ),
        sa.Column(
            "start",
            sa.BigInteger(),
            nullable=False,
            comment="where in the feed it goes on, once products are loaded",
        ),
        sa.Column(
            "loaded",
            sa.BigInteger(),
            server_default=sa.text("0"),
            nullable=False,
            comment="the id of the last product that was loaded",
        ),
        sa.Column("brands", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("price_factor", sa.Float(), nullable=False),
        sa.Column("learned_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("id = 1", name="matching_state_one_row_check"),
        sa.PrimaryKeyConstraint("id", name="matching_state_pkey"),
    )
    op.create_table(
        "offer_words",
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("offers", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("word", name="offer_words_pkey"),
    )
    op.create_table(
        "offers",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column(
            "site",
            sa.Text(),
            nullable=False,
            comment="the name of the shop, or of the own catalogue",
        ),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column(
            "gtin", sa.Text(), nullable=True, comment="14 digits of the single article; a box: /1"
        ),
        sa.Column("brand", sa.Text(), nullable=True, comment="normalised"),
        sa.Column("mpn", sa.Text(), nullable=True, comment="normalised part number"),
        sa.Column("attributes", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column(
            "words", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
        sa.Column("price", sa.Numeric(), nullable=True),
        sa.Column("currency", sa.Text(), nullable=True),
        sa.Column("unit_price", sa.Numeric(), nullable=True),
        sa.Column("unit", sa.Text(), nullable=True, comment="l, kg, m or piece"),
        sa.Column("in_stock", sa.Boolean(), nullable=True),
        sa.Column("listed", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column(
            "article_id",
            sa.BigInteger(),
            nullable=False,
            comment="the lowest id among the offers of its article",
        ),
        sa.Column(
            "proposed_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="when offers with similar titles were looked for; null: not yet",
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name="offers_pkey"),
    )
    op.create_index("offers_article_id_idx", "offers", ["article_id"])
    op.create_index(
        "offers_brand_idx", "offers", ["brand"], postgresql_where=sa.text("brand IS NOT NULL")
    )
    op.create_index(
        "offers_gtin_idx", "offers", ["gtin"], postgresql_where=sa.text("gtin IS NOT NULL")
    )
    op.create_index(
        "offers_mpn_idx", "offers", ["mpn"], postgresql_where=sa.text("mpn IS NOT NULL")
    )
    op.create_index("offers_site_external_id_key", "offers", ["site", "external_id"], unique=True)
    op.create_index(
        "offers_unproposed_idx", "offers", ["id"], postgresql_where=sa.text("proposed_at IS NULL")
    )
    op.create_index("offers_words_idx", "offers", ["words"], postgresql_using="gin")
    op.create_table(
        "offer_links",
        sa.Column("left_id", sa.BigInteger(), nullable=False),
        sa.Column("right_id", sa.BigInteger(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False, comment="gtin, mpn, title or person"),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="confirmed and refused: by a person, for good",
        ),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.Column("evidence", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('linked', 'proposed', 'confirmed', 'refused')",
            name="offer_links_state_known_check",
        ),
        sa.CheckConstraint("left_id < right_id", name="offer_links_ordered_check"),
        sa.ForeignKeyConstraint(
            ["left_id"], ["offers.id"], name="offer_links_left_id_fkey", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["right_id"], ["offers.id"], name="offer_links_right_id_fkey", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("left_id", "right_id", name="offer_links_pkey"),
    )
    op.create_index(
        "offer_links_proposed_idx",
        "offer_links",
        ["confidence", "left_id", "right_id"],
        postgresql_where=sa.text("state = 'proposed'"),
    )
    op.create_index("offer_links_right_id_idx", "offer_links", ["right_id"])
    op.execute(VIEW)


def downgrade() -> None:
    op.execute("DROP VIEW article_prices")
    for table in TABLES:
        op.drop_table(table)
