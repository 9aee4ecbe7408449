"""changes: the feed of new, changed, delisted and relisted products, and who has read how far"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
revision = '0010'
down_revision = '0009'
branch_labels = None
depends_on = None

# The feed begins here. Where there are products already, it does not tell how they came: position 1 is taken as read and
# forgotten, so that whoever begins at 0 is told to take a whole export first.
BEGIN = """
INSERT INTO feed (trimmed) SELECT CAST(EXISTS (SELECT FROM products) AS int)
"""
SKIP_ONE = """
SELECT setval('changes_id_seq', 1) WHERE EXISTS (SELECT FROM products)
"""


def upgrade() -> None:
    op.create_table(
        'changes',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False, comment='the position in the feed'),
        sa.Column('product_id', sa.BigInteger(), nullable=False),
        sa.Column('crawl_id', sa.BigInteger(), nullable=False),
        sa.Column('at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('site_id', sa.Integer(), nullable=False),
        sa.Column('version', sa.Integer(), nullable=False, comment="the product's, after it"),
        sa.Column('previous_version', sa.Integer(), nullable=True, comment='null: its content is no other'),
        sa.Column('event', sa.Text(), nullable=False, comment='new, changed, delisted, relisted'),
        sa.PrimaryKeyConstraint('id', name=op.f('changes_pkey')),
    )
    op.create_table(
        'consumers',
        sa.Column('name', sa.Text(), nullable=False),
        sa.Column('site', sa.Text(), nullable=False, comment='empty: all sites'),
        sa.Column('position', sa.BigInteger(), nullable=False, comment='has read so far'),
        sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('read_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.PrimaryKeyConstraint('name', 'site', name=op.f('consumers_pkey')),
    )
    op.create_table(
        'feed',
        sa.Column('id', sa.SmallInteger(), server_default=sa.text('1'), autoincrement=False, nullable=False),
        sa.Column('trimmed', sa.BigInteger(), nullable=False, comment='changes up to this position are forgotten'),
        sa.Column('trimmed_at', sa.DateTime(timezone=True), nullable=True, comment='when the last one of these was made'),
        sa.PrimaryKeyConstraint('id', name=op.f('feed_pkey')),
        sa.CheckConstraint('id = 1', name=op.f('feed_one_row_check')),
    )
    op.execute(BEGIN)
    op.execute(SKIP_ONE)


def downgrade() -> None:
    op.drop_table('feed')
    op.drop_table('consumers')
    op.drop_table('changes')
