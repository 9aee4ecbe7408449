"""pages that are not believed: what each is known for, and listings that show what others show"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0019'
down_revision = '0018'
branch_labels = None
depends_on = None

BEFORE = "a listing's, when it was last believed; 1: it was empty once; null: never read"
COMMENT = (
    'a listing for so many products, a product page for so many fields, when it was last '
    'believed; of a listing 1: it was empty once; null: never read'
)


def upgrade() -> None:
    op.add_column(
        'crawl_quality',
        sa.Column('repeated', sa.Integer(), nullable=True, comment='listings that showed what another one shows'),
    )
    op.alter_column('pages', 'products_named', new_column_name='known_for')
    op.alter_column('pages', 'known_for', comment=COMMENT, existing_type=sa.Integer())


def downgrade() -> None:
    op.execute("UPDATE pages SET known_for = NULL WHERE kind = 'product' AND known_for IS NOT NULL")
    op.alter_column('pages', 'known_for', new_column_name='products_named')
    op.alter_column('pages', 'products_named', comment=BEFORE, existing_type=sa.Integer())
    op.drop_column('crawl_quality', 'repeated')
