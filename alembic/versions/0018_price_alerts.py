"""price alerts: what people are told of changes, once for each rule"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0018'
down_revision = '0017'
branch_labels = None
depends_on = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        'price_alerts',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column('rule', sa.Text(), nullable=False),
        sa.Column('change_id', sa.BigInteger(), nullable=False, comment='the position in the feed'),
        sa.Column('crawl_id', sa.BigInteger(), nullable=False),
        sa.Column('details', postgresql.JSONB(), nullable=False, comment='what webhooks get'),
        sa.Column('created_at', moment, server_default=sa.text('now()'), nullable=False),
        sa.Column('not_before', moment, server_default=sa.text('now()'), nullable=False),
        sa.Column('attempts', sa.SmallInteger(), server_default=sa.text('0'), nullable=False),
        sa.Column('delivered', postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False,
                  comment='recipients that have it: line and kind'),
        sa.Column('done_at', moment, nullable=True, comment='when all had it, or it was given up'),
        sa.Column('error', sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint('id', name=op.f('price_alerts_pkey')),
        sa.UniqueConstraint('rule', 'change_id', name=op.f('price_alerts_rule_change_id_key')),
    )
    op.create_index('price_alerts_due_idx', 'price_alerts', ['not_before'], postgresql_where=sa.text('done_at IS NULL'))


def downgrade() -> None:
    op.drop_table('price_alerts')
