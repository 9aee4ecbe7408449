"""missed: how many products a crawl no longer found listed, and a listing names"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('crawl_quality', sa.Column(
        'missed', sa.Integer(), nullable=True, comment='products that its listings no longer named, for the first time'))
    op.add_column('pages', sa.Column(
        'products_named', sa.Integer(), nullable=True,
        comment="a listing's, when it was last believed; 1: it was empty once; null: never read"))


def downgrade() -> None:
    op.drop_column('pages', 'products_named')
    op.drop_column('crawl_quality', 'missed')
