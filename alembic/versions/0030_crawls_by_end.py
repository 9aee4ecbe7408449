"""finds the crawls that ended lately"""

from __future__ import annotations

from alembic import op

revision = '0030'
down_revision = '0029'
branch_labels = None
depends_on = None
compatible_from = '0029'


def upgrade() -> None:
    with op.get_context().autocommit_block():
        op.create_index('crawls_finished_at_idx', 'crawls', ['finished_at'], postgresql_concurrently=True,
                        if_not_exists=True)


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.drop_index('crawls_finished_at_idx', 'crawls', postgresql_concurrently=True, if_exists=True)
