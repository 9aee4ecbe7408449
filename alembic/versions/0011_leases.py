"""leases: a lease names its pages; in the frontier they stay due"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0011'
down_revision = '0010'
branch_labels = None
depends_on = None

STATUSES = "'due', 'ok', 'unchanged', 'gone', 'dead', 'invalid', 'dropped'"
STATUSES_BEFORE = "'due', 'leased', 'ok', 'unchanged', 'gone', 'dead', 'invalid', 'dropped'"

FILL = """
UPDATE leases l SET priority = coalesce(p.priority, 0), page_ids = p.ids, hosts = p.hosts
  FROM (SELECT lease_id, max(priority) AS priority, array_agg(id) AS ids, array_agg(host) AS hosts
          FROM pages WHERE lease_id IS NOT NULL GROUP BY lease_id) p
 WHERE p.lease_id = l.id
"""
EMPTY = "DELETE FROM leases WHERE page_ids IS NULL"
FREE = "UPDATE pages SET status = 'due' WHERE lease_id IS NOT NULL"

# What names pages lies apart from the rest of the row, which is read by whoever counts leases.
APART = """
ALTER TABLE leases SET (fillfactor = 70, toast_tuple_target = 128), ALTER page_ids SET STORAGE EXTERNAL
"""

# For people: what is out with workers, a row a page.
VIEW = """
CREATE VIEW leased_pages AS
SELECT u.page_id, l.id AS lease_id, u.host, l.queue, l.priority, l.worker, l.started_at, l.until
  FROM leases l CROSS JOIN LATERAL unnest(l.page_ids, l.hosts) AS u(page_id, host) WHERE u.page_id <> 0
"""

TAKE = """
UPDATE pages p SET status = 'leased', lease_id = l.lease_id FROM leased_pages l WHERE p.id = l.page_id AND p.status = 'due'
"""


def upgrade() -> None:
    op.add_column('leases', sa.Column('priority', sa.SmallInteger(), nullable=True, comment='of its most urgent page'))
    op.add_column(
        'leases',
        sa.Column('page_ids', postgresql.ARRAY(sa.BigInteger()), nullable=True, comment='0 where a page is settled'),
    )
    op.add_column(
        'leases', sa.Column('hosts', postgresql.ARRAY(sa.Text()), nullable=True, comment='of each of these pages')
    )
    op.execute(FILL)
    op.execute(EMPTY)
    for column in ('priority', 'page_ids', 'hosts'):
        op.alter_column('leases', column, nullable=False)
    op.alter_column('leases', 'pages', comment='that it was made with')
    op.execute(APART)
    op.drop_constraint(op.f('pages_leased_has_lease_check'), 'pages', type_='check')
    op.execute(FREE)
    op.drop_column('pages', 'lease_id')  # and its index
    _statuses(STATUSES)
    _indexes("status = 'due'")
    op.execute(VIEW)


def downgrade() -> None:
    _statuses(STATUSES_BEFORE)
    op.add_column('pages', sa.Column('lease_id', sa.Uuid(), nullable=True))
    op.create_index(
        'pages_lease_idx', 'pages', ['lease_id'], postgresql_include=['host'],
        postgresql_where=sa.text('lease_id IS NOT NULL'),
    )  # fmt: skip
    op.execute(TAKE)
    op.create_check_constraint(
        op.f('pages_leased_has_lease_check'), 'pages', "(status = 'leased') = (lease_id IS NOT NULL)"
    )
    _indexes("status IN ('due', 'leased')")
    op.execute('DROP VIEW leased_pages')
    op.execute('ALTER TABLE leases RESET (fillfactor, toast_tuple_target)')
    op.alter_column('leases', 'pages', comment=None)
    for column in ('hosts', 'page_ids', 'priority'):
        op.drop_column('leases', column)


def _statuses(known: str) -> None:
    op.drop_constraint(op.f('pages_status_known_check'), 'pages', type_='check')
    op.create_check_constraint(op.f('pages_status_known_check'), 'pages', f'status IN ({known})')


def _indexes(is_open: str) -> None:
    """Those over the pages that are open: which these are has another name now."""
    op.drop_index('pages_open_idx', table_name='pages')
    op.create_index('pages_open_idx', 'pages', ['crawl_id'], postgresql_where=sa.text(is_open))
    op.drop_index('pages_suspect_idx', table_name='pages')
    op.create_index(
        'pages_suspect_idx', 'pages', ['queue', 'losses'], postgresql_where=sa.text(f'losses >= 2 AND {is_open}')
    )
