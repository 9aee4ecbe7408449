"""vacuum: the frontier is vacuumed once a twentieth of it is dead"""

from __future__ import annotations

from alembic import op

revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute('ALTER TABLE pages SET (autovacuum_vacuum_scale_factor = 0.05)')


def downgrade() -> None:
    op.execute('ALTER TABLE pages RESET (autovacuum_vacuum_scale_factor)')
