"""lost products: a listing says which products it named; values that their page contradicts"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0023'
down_revision = '0022'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('pages', sa.Column('found_on', sa.BigInteger(), nullable=True,
                                     comment='the page that linked to it first in its crawl; null: none did'))
    op.add_column('crawls', sa.Column('asking', sa.Boolean(), server_default=sa.text('false'), nullable=False,
                                      comment='all else is read: it asks for the pages of what it would delist'))
    op.add_column('crawl_quality', sa.Column('strayed', sa.Integer(), server_default=sa.text('0'), nullable=False,
                                             comment='pages that gave another product than their own'))
    op.add_column('crawl_quality', sa.Column('lost', sa.Integer(), nullable=True,
                                             comment='listings most of whose products it no longer found'))
    op.add_column('held_values', sa.Column('contradicted', sa.Boolean(), server_default=sa.text('false'), nullable=False,
                                           comment='another source of the same page says otherwise'))


def downgrade() -> None:
    op.drop_column('held_values', 'contradicted')
    op.drop_column('crawl_quality', 'lost')
    op.drop_column('crawl_quality', 'strayed')
    op.drop_column('crawls', 'asking')
    op.drop_column('pages', 'found_on')
