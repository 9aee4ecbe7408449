"""votes: whether what else a page says agrees with what fields are read from"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = '0020'
down_revision = '0019'
branch_labels = None
depends_on = None

COLUMNS = {
    'crawl_quality': 'of a sample: field, other source, and yes or no for whether they agree',
    'crawl_fields': 'on how many pages each other source agrees, and disagrees; of a sample',
}

NOWHERE = 'the value that the product has is in no place of the page'


def upgrade() -> None:
    for table, comment in COLUMNS.items():
        op.add_column(
            table,
            sa.Column('votes', postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False, comment=comment),
        )
    op.add_column(
        'crawl_examples',
        sa.Column('nowhere', sa.Boolean(), server_default=sa.text('false'), nullable=False, comment=NOWHERE),
    )


def downgrade() -> None:
    op.drop_column('crawl_examples', 'nowhere')
    for table in COLUMNS:
        op.drop_column(table, 'votes')
