"""what recovery needs: tries of a host's own, suspects, stalled crawls, the head of an answer that could not be used"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql
revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('pages', sa.Column('host_attempts', sa.SmallInteger(), server_default=sa.text('0'), nullable=False,
                                     comment="tries that failed by the host's fault"))
    op.add_column('pages', sa.Column('response_head', postgresql.JSONB(astext_type=sa.Text()), nullable=True,
                                     comment='headers of the last answer that could not be used, bounded, without secrets'))
    op.alter_column('pages', 'attempts', comment='tries charged to the page')
    op.create_index('pages_suspect_idx', 'pages', ['queue', 'losses'], unique=False,
                    postgresql_where=sa.text("losses >= 2 AND status IN ('due', 'leased')"))
    op.add_column('leases', sa.Column('claim', sa.Uuid(), nullable=True,
                                      comment='whose answer was lost may claim again with the same one'))
    op.add_column('leases', sa.Column('alone', sa.Boolean(), server_default=sa.text('false'), nullable=False,
                                      comment='its worker does nothing else meanwhile'))
    op.add_column('crawls', sa.Column('progressed_at', sa.DateTime(timezone=True), server_default=sa.text('now()'),
                                      nullable=False, comment='when a page was last tried or added'))
    op.add_column('crawls', sa.Column('watched_at', sa.DateTime(timezone=True), server_default=sa.text('now()'),
                                      nullable=False, comment='when a coordinator last looked whether it moves'))
    op.add_column('crawls', sa.Column('idle_minutes', sa.Integer(), server_default=sa.text('0'), nullable=False,
                                      comment='looks in a row, a minute apart, that found no progress'))
    op.alter_column('crawls', 'trigger', comment='schedule, manual, or replay (of dead pages)')


def downgrade() -> None:
    op.alter_column('crawls', 'trigger', comment='schedule or manual')
    op.drop_column('crawls', 'idle_minutes')
    op.drop_column('crawls', 'watched_at')
    op.drop_column('crawls', 'progressed_at')
    op.drop_column('leases', 'alone')
    op.drop_column('leases', 'claim')
    op.drop_index('pages_suspect_idx', table_name='pages')
    op.alter_column('pages', 'attempts', comment=None)
    op.drop_column('pages', 'response_head')
    op.drop_column('pages', 'host_attempts')
