"""dedup: sites whose finished pages leave the frontier and are remembered by a Bloom filter"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'sites',
        sa.Column(
            'filter_id',
            sa.Uuid(),
            server_default=sa.text('gen_random_uuid()'),
            nullable=False,
            comment='names its Bloom filter in Redis; another one has forgotten everything',
        ),
    )
    op.add_column(
        'crawls',
        sa.Column('filter_id', sa.Uuid(), comment='the Bloom filter it asks; null: finished pages stay in the frontier'),
    )
    op.add_column(
        'crawls',
        sa.Column('cleared_at', sa.DateTime(timezone=True), comment='when its last finished pages left the frontier'),
    )
    op.add_column(
        'crawls',
        sa.Column('products_listed', sa.Integer(), comment='about how many its listings named; null: not counted'),
    )
    op.create_index(
        'crawls_uncleared_idx',
        'crawls',
        ['id'],
        postgresql_where=sa.text(
            "filter_id IS NOT NULL AND cleared_at IS NULL AND status IN ('completed', 'stopped', 'failed')"
        ),
    )
    op.drop_constraint('products_page_id_fkey', 'products', type_='foreignkey')
    op.alter_column(
        'products', 'page_id', comment='the page it is read from, which may have left the frontier'
    )


def downgrade() -> None:
    """Of products whose page has left the frontier nothing is lost: the key is not checked for them."""
    op.alter_column('products', 'page_id', comment='the page it is read from')
    op.execute(
        'ALTER TABLE products ADD CONSTRAINT products_page_id_fkey FOREIGN KEY (page_id) REFERENCES pages (id) NOT VALID'
    )
    op.drop_index('crawls_uncleared_idx', table_name='crawls')
    op.drop_column('crawls', 'products_listed')
    op.drop_column('crawls', 'cleared_at')
    op.drop_column('crawls', 'filter_id')
    op.drop_column('sites', 'filter_id')
