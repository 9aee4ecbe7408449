"""chains of listing pages that bring nothing new"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0015'
down_revision = '0014'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('pages', sa.Column('fruitless', sa.SmallInteger(), server_default=sa.text('0'), nullable=False,
                                     comment='steps through listings that brought nothing new, up to here'))
    op.add_column('pages', sa.Column('lists', sa.Uuid(), nullable=True, comment="a listing's: hash of its product links"))
    op.create_index('pages_lists_idx', 'pages', ['crawl_id', 'lists'], postgresql_where=sa.text('lists IS NOT NULL'))
    op.add_column('crawls', sa.Column('links_fruitless', sa.Integer(), server_default=sa.text('0'), nullable=False,
                                      comment='to listings behind too many that brought nothing new'))
    op.add_column('crawls', sa.Column('links_disallowed', sa.Integer(), server_default=sa.text('0'), nullable=False,
                                      comment='to listings that robots.txt disallows'))


def downgrade() -> None:
    op.drop_column('crawls', 'links_disallowed')
    op.drop_column('crawls', 'links_fruitless')
    op.drop_index('pages_lists_idx', table_name='pages')
    op.drop_column('pages', 'lists')
    op.drop_column('pages', 'fruitless')
