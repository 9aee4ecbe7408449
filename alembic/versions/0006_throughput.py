"""throughput: what crawls have done over time, by worker, queue, proxy class and outcome; and by host"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None

ROOM = {'fillfactor': 70}


def upgrade() -> None:
    op.create_table(
        'throughput',
        sa.Column('crawl_id', sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column('at', sa.DateTime(timezone=True), nullable=False, comment='when the bucket begins'),
        sa.Column('step_s', sa.SmallInteger(), nullable=False, comment='how long it is'),
        sa.Column('worker', sa.Text(), nullable=False),
        sa.Column('queue', sa.Text(), nullable=False, comment='with its region: residential.eu'),
        sa.Column('proxy', sa.Text(), nullable=False, comment='the class of proxies; empty: none'),
        sa.Column('outcome', sa.Text(), nullable=False),
        sa.Column('tries', sa.Integer(), nullable=False, comment='pages tried'),
        sa.Column('done', sa.Integer(), nullable=False, comment='of these: final for the crawl'),
        sa.Column('seconds', sa.Float(), nullable=False, comment='that requests were under way, summed'),
        sa.Column('bytes', sa.BigInteger(), nullable=False, comment='of bodies, unpacked'),
        sa.PrimaryKeyConstraint(
            'crawl_id', 'at', 'step_s', 'worker', 'queue', 'proxy', 'outcome', name=op.f('throughput_pkey')
        ),
        postgresql_with=ROOM,
    )
    op.create_index('throughput_step_s_at_idx', 'throughput', ['step_s', 'at'])
    op.create_table(
        'crawl_hosts',
        sa.Column('crawl_id', sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column('host', sa.Text(), nullable=False, comment='empty: all others together'),
        sa.Column('worker', sa.Text(), nullable=False, comment='empty: the crawl has ended'),
        sa.Column('tries', sa.Integer(), nullable=False),
        sa.Column('failures', sa.Integer(), nullable=False, comment='of these: gave nothing, and somebody is to blame'),
        sa.Column('seconds', sa.Float(), nullable=False),
        sa.Column('slowest_s', sa.Float(), nullable=False),
        sa.Column('bytes', sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint('crawl_id', 'host', 'worker', name=op.f('crawl_hosts_pkey')),
        postgresql_with=ROOM,
    )
    op.create_index(
        'pages_error_idx',
        'pages',
        ['crawl_id', 'settled_at'],
        postgresql_where=sa.text("error IS NOT NULL AND status <> 'gone'"),
    )


def downgrade() -> None:
    op.drop_index('pages_error_idx', table_name='pages')
    op.drop_table('crawl_hosts')
    op.drop_table('throughput')
