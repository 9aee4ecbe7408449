"""held values: what a crawl changes waits until the crawl is judged"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0013'
down_revision = '0012'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_table('kept_values')
    op.create_table(
        'held_values',
        sa.Column('product_id', sa.BigInteger(), nullable=False),
        sa.Column('field', sa.Text(), nullable=False),
        sa.Column('crawl_id', sa.BigInteger(), nullable=False, comment='the last crawl that read it'),
        sa.Column('since_crawl_id', sa.BigInteger(), nullable=False,
                  comment='the first crawl that read this very value, with none in between'),
        sa.Column('seen_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False, comment='when that was'),
        sa.Column('difference', sa.Text(), nullable=False, comment='changed, vanished or appeared'),
        sa.Column('value', postgresql.JSONB(), nullable=False, comment='what its keys would hold; empty: it vanished'),
        sa.Column('reason', sa.Text(), nullable=True, comment='why it is not believed; null: its crawl is not judged yet'),
        sa.ForeignKeyConstraint(['product_id'], ['products.id'], name=op.f('held_values_product_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['crawl_id'], ['crawls.id'], name=op.f('held_values_crawl_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('product_id', 'field', name=op.f('held_values_pkey')),
    )
    op.create_index('held_values_crawl_id_product_id_idx', 'held_values', ['crawl_id', 'product_id'])
    op.alter_column('crawl_quality', 'kept', new_column_name='vanished', existing_type=postgresql.JSONB(),
                    comment='values that products have and pages did not give',
                    existing_comment='values kept though they were not found')
    op.alter_column('crawl_fields', 'kept', new_column_name='vanished', existing_type=sa.Integer(),
                    comment='products that have it, on pages that do not',
                    existing_comment='products that kept a value which was not found')
    for name, comment in (
        ('compared', 'products that were known before, and read'),
        ('changed', 'of these with another value than before'),
        ('held', 'values that are not believed, and wait'),
    ):
        op.add_column('crawl_fields', sa.Column(name, sa.Integer(), server_default=sa.text('0'), nullable=False, comment=comment))


def downgrade() -> None:
    for name in ('held', 'changed', 'compared'):
        op.drop_column('crawl_fields', name)
    op.alter_column('crawl_fields', 'vanished', new_column_name='kept', existing_type=sa.Integer(),
                    comment='products that kept a value which was not found',
                    existing_comment='products that have it, on pages that do not')
    op.alter_column('crawl_quality', 'vanished', new_column_name='kept', existing_type=postgresql.JSONB(),
                    comment='values kept though they were not found',
                    existing_comment='values that products have and pages did not give')
    op.drop_table('held_values')
    op.create_table(
        'kept_values',
        sa.Column('crawl_id', sa.BigInteger(), nullable=False),
        sa.Column('product_id', sa.BigInteger(), nullable=False),
        sa.Column('fields', postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column('came', postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(['crawl_id'], ['crawls.id'], name=op.f('kept_values_crawl_id_fkey'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['product_id'], ['products.id'], name=op.f('kept_values_product_id_fkey'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('crawl_id', 'product_id', name=op.f('kept_values_pkey')),
    )
