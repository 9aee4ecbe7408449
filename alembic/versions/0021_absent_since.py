"""products: since when a product is not on its page any more, which has several"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0021'
down_revision = '0020'
branch_labels = None
depends_on = None

COMMENT = 'its page, which has several products, was read without it, and since then never with it'


def upgrade() -> None:
    op.add_column('products', sa.Column('absent_since', sa.DateTime(timezone=True), comment=COMMENT))


def downgrade() -> None:
    op.drop_column('products', 'absent_since')
