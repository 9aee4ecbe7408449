"""host routes: how a page gets past a block, and what its host is remembered to need"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql
revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        'host_routes',
        sa.Column('site_id', sa.Integer(), nullable=False),
        sa.Column('host', sa.Text(), nullable=False),
        sa.Column('start', sa.Text(), nullable=False, comment="the level by the site's definition"),
        sa.Column('level', sa.Text(), nullable=False),
        sa.Column('changed_at', TIMESTAMP, nullable=False),
        sa.Column(
            'blocked_pages',
            postgresql.ARRAY(sa.BigInteger()),
            nullable=False,
            comment='given up at the level since its last good answer',
        ),
        sa.Column('probe_at', TIMESTAMP, nullable=True, comment='when one page is to try the level below'),
        sa.Column('probe_every_s', sa.Float(), nullable=False),
        sa.Column('probes_ok', sa.Integer(), nullable=False),
        sa.Column('fell_at', TIMESTAMP, nullable=True, comment='when it last came down a level'),
        sa.Column('fell_every_s', sa.Float(), nullable=False),
        sa.Column('why', sa.Text(), nullable=False, comment='the sign for which it went up, or a probe failed'),
        sa.ForeignKeyConstraint(['site_id'], ['sites.id'], name=op.f('host_routes_site_id_fkey')),
        sa.PrimaryKeyConstraint('site_id', 'host', 'start', name=op.f('host_routes_pkey')),
    )
    op.add_column(
        'pages', sa.Column('level', sa.Text(), nullable=True, comment="the capability it has come to, above its host's")
    )
    op.add_column(
        'pages',
        sa.Column('blocked', sa.SmallInteger(), server_default=sa.text('0'), nullable=False, comment='blocks where it is'),
    )
    op.add_column(
        'pages',
        sa.Column(
            'probe',
            sa.Boolean(),
            server_default=sa.text('false'),
            nullable=False,
            comment='to try a cheaper way for its host',
        ),
    )


def downgrade() -> None:
    op.execute("UPDATE pages SET last_outcome = 'refused' WHERE last_outcome = 'blocked'")
    op.drop_column('pages', 'probe')
    op.drop_column('pages', 'blocked')
    op.drop_column('pages', 'level')
    op.drop_table('host_routes')
