"""consumers are leased: their readers hold no connection"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = '0031'
down_revision = '0030'
branch_labels = None
depends_on = None
compatible_from = '0030'


def upgrade() -> None:
    op.create_table(
        'consumer_locks',
        sa.Column('name', sa.Text(), nullable=False),
        sa.Column('site', sa.Text(), nullable=False, comment='empty: all sites'),
        sa.Column('holder', sa.Uuid(), nullable=False, comment='a number of that process'),
        sa.Column('until', sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint('name', 'site', name='consumer_locks_pkey'),
    )


def downgrade() -> None:
    op.drop_table('consumer_locks')
