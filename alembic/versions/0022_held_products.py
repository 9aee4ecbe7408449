"""held products: what is new waits until its crawl is judged; what is missed is asked for"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0022'
down_revision = '0021'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'held_products',
        sa.Column('site_id', sa.Integer(), nullable=False),
        sa.Column('external_id', sa.Text(), nullable=False),
        sa.Column('page_id', sa.BigInteger(), nullable=False),
        sa.Column('crawl_id', sa.BigInteger(), nullable=False, comment='the last crawl that read it'),
        sa.Column('since_crawl_id', sa.BigInteger(), nullable=False,
                  comment='the first crawl that read these very values, with none in between'),
        sa.Column('seen_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False,
                  comment='when it was read first'),
        sa.Column('url', sa.Text(), nullable=False),
        sa.Column('data', postgresql.JSONB(), nullable=False),
        sa.Column('content_hash', sa.Uuid(), nullable=False),
        sa.Column('reason', sa.Text(), nullable=True, comment='why it is not believed; null: its crawl is not judged yet'),
        sa.ForeignKeyConstraint(['site_id'], ['sites.id'], name=op.f('held_products_site_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['crawl_id'], ['crawls.id'], name=op.f('held_products_crawl_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('site_id', 'external_id', name=op.f('held_products_pkey')),
    )
    op.create_index('held_products_crawl_id_idx', 'held_products', ['crawl_id'])
    op.add_column('crawls', sa.Column('holds_new', sa.Boolean(), server_default=sa.text('false'), nullable=False,
                                      comment='products that nobody knows yet wait until it is judged'))
    op.add_column('products', sa.Column('asked_by', sa.BigInteger(), nullable=True,
                                        comment='the last crawl that asked for its page, since no listing named it'))


def downgrade() -> None:
    op.drop_column('products', 'asked_by')
    op.drop_column('crawls', 'holds_new')
    op.drop_table('held_products')
