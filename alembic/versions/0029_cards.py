"""what the cards of listings say of held values"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0029'
down_revision = '0028'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('held_values', sa.Column('card', sa.Boolean(), nullable=True,
                                           comment="whether the product's card on a listing says this, or still the stored value"))


def downgrade() -> None:
    op.drop_column('held_values', 'card')
