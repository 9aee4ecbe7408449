"""values that a page gives twice in one crawl"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0028'
down_revision = '0027'
branch_labels = None
depends_on = None

ASKING = (
    'everything else is read; it fetches the pages of products that it would delist',
    'everything else is read; it fetches pages again, and those of products that it would delist',
)


def upgrade() -> None:
    op.add_column('held_values', sa.Column('confirmed', sa.Boolean(), server_default=sa.text('false'), nullable=False,
                                           comment='its page has said it twice in this crawl'))
    op.add_column('crawl_quality', sa.Column('asked', postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False,
                                             comment='values in doubt that were requested again'))
    op.alter_column('crawls', 'asking', comment=ASKING[1])


def downgrade() -> None:
    op.alter_column('crawls', 'asking', comment=ASKING[0])
    op.drop_column('crawl_quality', 'asked')
    op.drop_column('held_values', 'confirmed')
