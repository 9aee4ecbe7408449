"""hosts: what an operator says of a host"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'hosts',
        sa.Column('host', sa.Text(), nullable=False, comment='name and port, as in pages'),
        sa.Column('paused', sa.Boolean(), server_default=sa.text('false'), nullable=False),
        sa.Column('rate', sa.Text(), nullable=True, comment="as written: 30/m, unlimited; null: the definition's"),
        sa.Column('concurrency', sa.Integer(), nullable=True),
        sa.Column('burst', sa.Integer(), nullable=True),
        sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.PrimaryKeyConstraint('host', name=op.f('hosts_pkey')),
    )


def downgrade() -> None:
    op.drop_table('hosts')
