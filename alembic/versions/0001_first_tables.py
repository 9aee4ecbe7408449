"""first tables"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql
revision = '0001'
down_revision = None
branch_labels = None
depends_on = None

# Every content a product has had, the present one included: what a person asks of a price history.
PRODUCT_HISTORY = """
CREATE VIEW product_history AS
SELECT s.name AS site, p.external_id, v.version, v.data, v.valid_from, v.valid_to
  FROM product_versions v JOIN products p ON p.id = v.product_id JOIN sites s ON s.id = p.site_id
UNION ALL
SELECT s.name, p.external_id, p.version, p.data, p.changed_at, p.delisted_at
  FROM products p JOIN sites s ON s.id = p.site_id
"""


def upgrade() -> None:
    op.create_table('leases',
    sa.Column('id', sa.Uuid(), nullable=False),
    sa.Column('queue', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('pages', sa.Integer(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True, comment='null: no worker has claimed it yet'),
    sa.Column('until', sa.DateTime(timezone=True), nullable=False),
    sa.Column('worker', sa.Text(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('leases_pkey'))
    )
    op.create_index('leases_until_idx', 'leases', ['until'], unique=False)
    op.create_table('sites',
    sa.Column('id', sa.Integer(), sa.Identity(always=True), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('definition', postgresql.JSON(astext_type=sa.Text()), nullable=False, comment='json, not jsonb: the order of fields counts'),
    sa.Column('definition_hash', sa.Text(), nullable=False),
    sa.Column('enabled', sa.Boolean(), server_default=sa.text('true'), nullable=False),
    sa.Column('paused', sa.Boolean(), server_default=sa.text('false'), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('scheduled_since', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False, comment='slots before it are not made up'),
    sa.PrimaryKeyConstraint('id', name=op.f('sites_pkey')),
    sa.UniqueConstraint('name', name=op.f('sites_name_key'))
    )
    op.create_table('crawls',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('site_id', sa.Integer(), nullable=False),
    sa.Column('slot', sa.DateTime(timezone=True), nullable=False, comment='the scheduled time it stands for'),
    sa.Column('trigger', sa.Text(), nullable=False, comment='schedule or manual'),
    sa.Column('status', sa.Text(), server_default=sa.text("'planned'"), nullable=False),
    sa.Column('definition', postgresql.JSON(astext_type=sa.Text()), nullable=False, comment='as it was when the crawl was planned'),
    sa.Column('definition_hash', sa.Text(), nullable=False),
    sa.Column('rate_per_s', sa.Float(), nullable=True, comment="a host's budget; null: unlimited"),
    sa.Column('concurrency', sa.Integer(), nullable=False),
    sa.Column('fresh_after', sa.DateTime(timezone=True), nullable=True, comment='products fetched later than this are not fetched again; null: all are'),
    sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('note', sa.Text(), nullable=True, comment='why it was skipped, stopped or failed'),
    sa.Column('discovery_total', sa.Integer(), server_default=sa.text('0'), nullable=False, comment='listings and sitemaps'),
    sa.Column('discovery_done', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('product_total', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('product_done', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('ok', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('unchanged', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('gone', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('dead', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('invalid', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('dropped', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('fresh', sa.Integer(), server_default=sa.text('0'), nullable=False, comment='of unchanged: not asked again'),
    sa.Column('fetches', sa.Integer(), server_default=sa.text('0'), nullable=False, comment='pages tried, retries included'),
    sa.Column('retries', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('links_cut', sa.Integer(), server_default=sa.text('0'), nullable=False, comment='over the limits; a page that breaks off: 1'),
    sa.Column('products_new', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('products_changed', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.Column('products_delisted', sa.Integer(), server_default=sa.text('0'), nullable=False),
    sa.CheckConstraint("status IN ('planned', 'running', 'completed', 'stopped', 'failed', 'skipped')", name=op.f('crawls_status_known_check')),
    sa.ForeignKeyConstraint(['site_id'], ['sites.id'], name=op.f('crawls_site_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('crawls_pkey'))
    )
    op.create_index('crawls_one_active_a_site', 'crawls', ['site_id'], unique=True, postgresql_where=sa.text("status IN ('planned', 'running')"))
    op.create_index('crawls_site_id_slot_key', 'crawls', ['site_id', 'slot'], unique=True)
    op.create_table('pages',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('site_id', sa.Integer(), nullable=False),
    sa.Column('crawl_id', sa.BigInteger(), nullable=False, comment='the last crawl that reached it'),
    sa.Column('fingerprint', sa.Uuid(), nullable=False, comment='hash of the canonical URL'),
    sa.Column('url', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('host', sa.Text(), nullable=False),
    sa.Column('queue', sa.Text(), nullable=False),
    sa.Column('priority', sa.SmallInteger(), nullable=False),
    sa.Column('depth', sa.SmallInteger(), nullable=False, comment='links followed from a start URL'),
    sa.Column('status', sa.Text(), nullable=False),
    sa.Column('attempts', sa.SmallInteger(), server_default=sa.text('0'), nullable=False),
    sa.Column('losses', sa.SmallInteger(), server_default=sa.text('0'), nullable=False, comment='workers that died holding it'),
    sa.Column('not_before', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('lease_id', sa.Uuid(), nullable=True),
    sa.Column('content_hash', sa.Uuid(), nullable=True, comment='of what was extracted'),
    sa.Column('last_outcome', sa.Text(), nullable=True),
    sa.Column('http_status', sa.SmallInteger(), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('excerpt', sa.Text(), nullable=True, comment='the start of a body that could not be used'),
    sa.Column('discovered_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('fetched_at', sa.DateTime(timezone=True), nullable=True, comment='last good answer'),
    sa.Column('settled_at', sa.DateTime(timezone=True), nullable=True, comment='last verdict'),
    sa.CheckConstraint("(status = 'leased') = (lease_id IS NOT NULL)", name=op.f('pages_leased_has_lease_check')),
    sa.CheckConstraint("kind IN ('sitemap', 'listing', 'product')", name=op.f('pages_kind_known_check')),
    sa.CheckConstraint("status IN ('due', 'leased', 'ok', 'unchanged', 'gone', 'dead', 'invalid', 'dropped')", name=op.f('pages_status_known_check')),
    sa.ForeignKeyConstraint(['crawl_id'], ['crawls.id'], name=op.f('pages_crawl_id_fkey')),
    sa.ForeignKeyConstraint(['site_id'], ['sites.id'], name=op.f('pages_site_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('pages_pkey'))
    )
    op.create_index('pages_due_idx', 'pages', ['queue', 'host', sa.literal_column('priority DESC'), 'not_before'], unique=False, postgresql_where=sa.text("status = 'due'"))
    op.create_index('pages_lease_idx', 'pages', ['lease_id'], unique=False, postgresql_include=['host'], postgresql_where=sa.text('lease_id IS NOT NULL'))
    op.create_index('pages_open_idx', 'pages', ['crawl_id'], unique=False, postgresql_where=sa.text("status IN ('due', 'leased')"))
    op.create_index('pages_site_id_fingerprint_key', 'pages', ['site_id', 'fingerprint'], unique=True)
    op.create_index('pages_unusable_idx', 'pages', ['site_id', 'status'], unique=False, postgresql_where=sa.text("status IN ('dead', 'invalid')"))
    op.create_table('products',
    sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
    sa.Column('site_id', sa.Integer(), nullable=False),
    sa.Column('external_id', sa.Text(), nullable=False, comment="the shop's own id, or the page's canonical URL"),
    sa.Column('page_id', sa.BigInteger(), nullable=False, comment='the page it is read from'),
    sa.Column('crawl_id', sa.BigInteger(), nullable=False, comment='the last crawl that wrote it'),
    sa.Column('url', sa.Text(), nullable=False),
    sa.Column('data', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('content_hash', sa.Uuid(), nullable=False),
    sa.Column('version', sa.Integer(), server_default=sa.text('1'), nullable=False, comment='1 + the changes seen'),
    sa.Column('first_seen_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('changed_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('fetched_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
    sa.Column('missed_crawls', sa.SmallInteger(), server_default=sa.text('0'), nullable=False, comment='complete crawls in a row that did not find it'),
    sa.Column('delisted_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['crawl_id'], ['crawls.id'], name=op.f('products_crawl_id_fkey')),
    sa.ForeignKeyConstraint(['page_id'], ['pages.id'], name=op.f('products_page_id_fkey')),
    sa.ForeignKeyConstraint(['site_id'], ['sites.id'], name=op.f('products_site_id_fkey')),
    sa.PrimaryKeyConstraint('id', name=op.f('products_pkey'))
    )
    op.create_index('products_page_id_idx', 'products', ['page_id'], unique=False)
    op.create_index('products_site_id_changed_at_idx', 'products', ['site_id', 'changed_at'], unique=False)
    op.create_index('products_site_id_external_id_key', 'products', ['site_id', 'external_id'], unique=True)
    op.create_table('product_versions',
    sa.Column('product_id', sa.BigInteger(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=False),
    sa.Column('data', postgresql.JSONB(astext_type=sa.Text()), nullable=False),
    sa.Column('content_hash', sa.Uuid(), nullable=False),
    sa.Column('valid_from', sa.DateTime(timezone=True), nullable=False),
    sa.Column('valid_to', sa.DateTime(timezone=True), nullable=False),
    sa.Column('crawl_id', sa.BigInteger(), nullable=False, comment='the crawl that saw the change'),
    sa.ForeignKeyConstraint(['crawl_id'], ['crawls.id'], name=op.f('product_versions_crawl_id_fkey')),
    sa.ForeignKeyConstraint(['product_id'], ['products.id'], name=op.f('product_versions_product_id_fkey'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('product_id', 'version', name=op.f('product_versions_pkey'))
    )
    op.execute(PRODUCT_HISTORY)



def downgrade() -> None:
    op.execute("DROP VIEW product_history")
    op.drop_table('product_versions')
    op.drop_index('products_site_id_external_id_key', table_name='products')
    op.drop_index('products_site_id_changed_at_idx', table_name='products')
    op.drop_index('products_page_id_idx', table_name='products')
    op.drop_table('products')
    op.drop_index('pages_unusable_idx', table_name='pages', postgresql_where=sa.text("status IN ('dead', 'invalid')"))
    op.drop_index('pages_site_id_fingerprint_key', table_name='pages')
    op.drop_index('pages_open_idx', table_name='pages', postgresql_where=sa.text("status IN ('due', 'leased')"))
    op.drop_index('pages_lease_idx', table_name='pages', postgresql_include=['host'], postgresql_where=sa.text('lease_id IS NOT NULL'))
    op.drop_index('pages_due_idx', table_name='pages', postgresql_where=sa.text("status = 'due'"))
    op.drop_table('pages')
    op.drop_index('crawls_site_id_slot_key', table_name='crawls')
    op.drop_index('crawls_one_active_a_site', table_name='crawls', postgresql_where=sa.text("status IN ('planned', 'running')"))
    op.drop_table('crawls')
    op.drop_table('sites')
    op.drop_index('leases_until_idx', table_name='leases')
    op.drop_table('leases')
