"""quality: what crawls say of their fields, which of them are suspect, values kept, alerts"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql
revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime(timezone=True)
JSONB = postgresql.JSONB()
NOTHING = sa.text("'{}'")
ZERO = sa.text('0')


def of_crawl(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ['crawl_id'], ['crawls.id'], name=op.f(f'{table}_crawl_id_fkey'), ondelete='CASCADE'
    )


def upgrade() -> None:
    op.add_column(
        'crawls',
        sa.Column('judged_at', TIMESTAMP, nullable=True, comment="when its data was compared with recent crawls'"),
    )
    op.add_column(
        'crawls',
        sa.Column(
            'suspect', sa.Boolean(), server_default=sa.text('false'), nullable=False, comment='its data is not to be trusted'
        ),
    )
    op.add_column(
        'crawls',
        sa.Column(
            'reasons', JSONB, nullable=True, comment='why it is suspect, or was: field (null: the whole crawl), what, text'
        ),
    )
    op.add_column(
        'crawls',
        sa.Column(
            'accepted_at',
            TIMESTAMP,
            nullable=True,
            comment='when it was taken as the new usual: nothing before it counts any more',
        ),
    )
    # What has ended before is not judged: nobody has counted it.
    op.execute("UPDATE crawls SET judged_at = finished_at WHERE status IN ('completed', 'stopped', 'failed')")
    op.create_index(
        'crawls_unjudged_idx',
        'crawls',
        ['id'],
        postgresql_where=sa.text("judged_at IS NULL AND status IN ('completed', 'stopped', 'failed')"),
    )
    op.create_table(
        'crawl_quality',
        sa.Column('crawl_id', sa.BigInteger(), nullable=False),
        sa.Column('records', sa.Integer(), server_default=ZERO, nullable=False, comment='products looked for on pages'),
        sa.Column('found', JSONB, server_default=NOTHING, nullable=False),
        sa.Column('mistyped', JSONB, server_default=NOTHING, nullable=False),
        sa.Column(
            'kept', JSONB, server_default=NOTHING, nullable=False, comment='values kept though they were not found'
        ),
        sa.Column('recent_records', sa.Float(), server_default=ZERO, nullable=False, comment='older ones fade'),
        sa.Column('recent', JSONB, server_default=NOTHING, nullable=False, comment='found, likewise fading'),
        sa.Column(
            'usual',
            JSONB,
            server_default=NOTHING,
            nullable=False,
            comment='when the crawl began: medians, and the line below which a field breaks',
        ),
        sa.Column('products', sa.Integer(), nullable=True, comment='good product pages at its end'),
        sa.Column('usual_products', sa.Float(), nullable=True),
        of_crawl('crawl_quality'),
        sa.PrimaryKeyConstraint('crawl_id', name=op.f('crawl_quality_pkey')),
    )
    op.create_table(
        'crawl_fields',
        sa.Column('crawl_id', sa.BigInteger(), nullable=False),
        sa.Column('field', sa.Text(), nullable=False),
        sa.Column('records', sa.Integer(), nullable=False, comment='products looked for on pages'),
        sa.Column('found', sa.Integer(), nullable=False, comment="of these with a value of the page's own"),
        sa.Column(
            'mistyped', sa.Integer(), nullable=False, comment='of these with something else than a value of its type'
        ),
        sa.Column('kept', sa.Integer(), nullable=False, comment='products that kept a value which was not found'),
        sa.Column('distinct_values', sa.Integer(), nullable=False, comment='among the sampled'),
        sa.Column('sampled', sa.Integer(), nullable=False, comment='values of stored products'),
        sa.Column('usual_fill', sa.Float(), nullable=True, comment='null: not known'),
        sa.Column('usual_mistyped', sa.Float(), nullable=False),
        sa.Column('usual_distinct', sa.Float(), nullable=False),
        sa.Column('line', sa.Float(), nullable=False, comment='the fill rate below which it breaks'),
        sa.Column('breach', sa.Text(), nullable=True, comment='what is wrong with it; null: nothing'),
        of_crawl('crawl_fields'),
        sa.PrimaryKeyConstraint('crawl_id', 'field', name=op.f('crawl_fields_pkey')),
    )
    op.create_table(
        'crawl_examples',
        sa.Column('crawl_id', sa.BigInteger(), nullable=False),
        sa.Column('field', sa.Text(), nullable=False),
        sa.Column('url', sa.Text(), nullable=False),
        sa.Column('problem', sa.Text(), nullable=False),
        sa.Column('excerpt', sa.Text(), nullable=False),
        sa.Column('known', sa.Text(), nullable=True, comment='the value that its product had'),
        sa.Column('seen_at', TIMESTAMP, server_default=sa.text('now()'), nullable=False),
        of_crawl('crawl_examples'),
        sa.PrimaryKeyConstraint('crawl_id', 'field', 'url', name=op.f('crawl_examples_pkey')),
    )
    op.create_table(
        'kept_values',
        sa.Column('crawl_id', sa.BigInteger(), nullable=False),
        sa.Column('product_id', sa.BigInteger(), nullable=False),
        sa.Column('fields', postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column('came', JSONB, nullable=False),
        of_crawl('kept_values'),
        sa.ForeignKeyConstraint(
            ['product_id'], ['products.id'], name=op.f('kept_values_product_id_fkey'), ondelete='CASCADE'
        ),
        sa.PrimaryKeyConstraint('crawl_id', 'product_id', name=op.f('kept_values_pkey')),
    )
    op.create_table(
        'alerts',
        sa.Column('crawl_id', sa.BigInteger(), nullable=False),
        sa.Column('created_at', TIMESTAMP, server_default=sa.text('now()'), nullable=False),
        sa.Column('not_before', TIMESTAMP, server_default=sa.text('now()'), nullable=False),
        sa.Column('attempts', sa.SmallInteger(), server_default=ZERO, nullable=False),
        sa.Column(
            'delivered',
            postgresql.ARRAY(sa.Text()),
            server_default=NOTHING,
            nullable=False,
            comment='recipients that have it: line and kind, never the address',
        ),
        sa.Column('done_at', TIMESTAMP, nullable=True, comment='when all had it, or it was given up'),
        sa.Column('error', sa.Text(), nullable=True, comment='which recipients could not be reached last time'),
        of_crawl('alerts'),
        sa.PrimaryKeyConstraint('crawl_id', name=op.f('alerts_pkey')),
    )
    op.create_index('alerts_due_idx', 'alerts', ['not_before'], postgresql_where=sa.text('done_at IS NULL'))


def downgrade() -> None:
    op.drop_table('alerts')
    op.drop_table('kept_values')
    op.drop_table('crawl_examples')
    op.drop_table('crawl_fields')
    op.drop_table('crawl_quality')
    op.drop_index('crawls_unjudged_idx', table_name='crawls')
    op.drop_column('crawls', 'accepted_at')
    op.drop_column('crawls', 'reasons')
    op.drop_column('crawls', 'suspect')
    op.drop_column('crawls', 'judged_at')
