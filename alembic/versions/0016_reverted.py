"""reverted: what a rejected crawl wrote is taken back in the feed"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0016'
down_revision = '0015'
branch_labels = None
depends_on = None
OLD, NEW = 'new, changed, delisted, relisted', 'new, changed, delisted, relisted, reverted'


def upgrade() -> None:
    op.alter_column('changes', 'event', existing_type=sa.Text(), comment=NEW, existing_comment=OLD)


def downgrade() -> None:
    op.alter_column('changes', 'event', existing_type=sa.Text(), comment=OLD, existing_comment=NEW)
