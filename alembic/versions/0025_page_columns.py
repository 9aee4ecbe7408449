"""pages: two columns get names that say what they hold"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0025'
down_revision = '0024'
branch_labels = None
depends_on = None

# Old name, new name, type, old comment, new comment. Renaming changes the catalogue alone: no row
# is rewritten, and views and indexes follow.
COLUMNS = (
    (
        'known_for', 'last_item_count', sa.Integer(),
        'a listing for so many products, a product page for so many fields, when it was last '
        'believed; of a listing 1: it was empty once; null: never read',
        'how many products a listing named, or how many fields a product page had, when it was '
        'last accepted; 1 for a listing that was empty once; null: never read',
    ),
    (
        'read_by', 'extractor_hash', sa.BigInteger(),
        'what read it whole; null: it is asked for without validators',
        'definition, functions and version that extracted it whole; null: it is requested without '
        'validators',
    ),
)  # fmt: skip


def upgrade() -> None:
    for old, new, type_, _, comment in COLUMNS:
        op.alter_column('pages', old, new_column_name=new)
        op.alter_column('pages', new, comment=comment, existing_type=type_)


def downgrade() -> None:
    for old, new, type_, comment, _ in COLUMNS:
        op.alter_column('pages', new, new_column_name=old)
        op.alter_column('pages', old, comment=comment, existing_type=type_)
