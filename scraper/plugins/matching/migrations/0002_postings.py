"""lists of the offers of each word and shop"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

FILL = """
INSERT INTO offer_postings (word, site, ids)
SELECT word, site, array_agg(id ORDER BY id) FROM offers CROSS JOIN unnest(words) word GROUP BY 1, 2
"""


def upgrade() -> None:
    op.create_table(
        "offer_postings",
        sa.Column("word", sa.Text(), nullable=False),
        sa.Column("site", sa.Text(), nullable=False),
        sa.Column("ids", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.PrimaryKeyConstraint("word", "site", name="offer_postings_pkey"),
    )
    op.execute(FILL)
    op.drop_index("offers_words_idx", "offers")


def downgrade() -> None:
    op.create_index("offers_words_idx", "offers", ["words"], postgresql_using="gin")
    op.drop_table("offer_postings")
