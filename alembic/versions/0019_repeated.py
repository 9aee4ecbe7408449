"""repeated listings: how many of a crawl's show what another one shows"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0019'
down_revision = '0018'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        'crawl_quality',
        sa.Column('repeated', sa.Integer(), nullable=True, comment='listings that showed what another one shows'),
    )


def downgrade() -> None:
    op.drop_column('crawl_quality', 'repeated')
