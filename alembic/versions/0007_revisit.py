"""revisit: validators and an interval of each product page, and how many answered 304"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
revision = '0007'
down_revision = '0006'
branch_labels = None
depends_on = None


def columns_of_pages() -> list[sa.Column]:
    return [
        sa.Column('etag', sa.Text(), nullable=True, comment="a product page's, as it came"),
        sa.Column('last_modified', sa.Text(), nullable=True, comment='likewise'),
        sa.Column('read_by', sa.BigInteger(), nullable=True, comment='what read it whole; null: it is asked for without validators'),
        sa.Column('read_at', sa.DateTime(timezone=True), nullable=True, comment='when it was last read whole'),
        sa.Column('revisit_s', sa.Integer(), nullable=True, comment="the page's own interval; null: the definition's is every page's"),
    ]


def columns_of_crawls() -> list[sa.Column]:
    return [
        sa.Column('stale_before', sa.DateTime(timezone=True), nullable=True, comment='until then, by their own interval; fetched earlier, they are in any case; null: no such interval'),
        sa.Column('whole_before', sa.DateTime(timezone=True), nullable=True, comment='products read no later than this are asked for without validators'),
        sa.Column('not_modified', sa.Integer(), server_default=sa.text('0'), nullable=False, comment='of unchanged: answered 304'),
    ]


def upgrade() -> None:
    for column in columns_of_pages():
        op.add_column('pages', column)
    for column in columns_of_crawls():
        op.add_column('crawls', column)


def downgrade() -> None:
    for column in columns_of_crawls():
        op.drop_column('crawls', column.name)
    for column in columns_of_pages():
        op.drop_column('pages', column.name)
