"""body hash: a page whose bytes are those of last time is not read again"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0017'
down_revision = '0016'
branch_labels = None
depends_on = None
OLD = 'of unchanged: answered 304'
NEW = 'of unchanged: answered 304, or with the same bytes'


def upgrade() -> None:
    comment = 'of its body as it came, packed: the same again is not read'
    op.add_column('pages', sa.Column('body_hash', sa.BigInteger(), nullable=True, comment=comment))
    op.alter_column('crawls', 'not_modified', existing_type=sa.Integer(), comment=NEW, existing_comment=OLD)


def downgrade() -> None:
    op.alter_column('crawls', 'not_modified', existing_type=sa.Integer(), comment=OLD, existing_comment=NEW)
    op.drop_column('pages', 'body_hash')
