"""what a doubted try of a page gave, which another process compares with the next one"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None
compatible_from = "0030"


def upgrade() -> None:
    comment = "of what its last try gave, if that was doubted"
    op.add_column("pages", sa.Column("doubted_hash", sa.Uuid(), nullable=True, comment=comment))


def downgrade() -> None:
    op.drop_column("pages", "doubted_hash")
