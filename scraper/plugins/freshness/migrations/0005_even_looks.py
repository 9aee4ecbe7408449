"""changes by hour and weekday if all were alike"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None
compatible_from = "0004"


def upgrade() -> None:
    for name, part in (("hours_even", "hour (UTC)"), ("days_even", "weekday")):
        op.add_column(
            "site_plans",
            sa.Column(
                name,
                postgresql.ARRAY(sa.Float()),
                server_default=sa.text("'{}'"),
                nullable=False,
                comment=f"changes by {part} that were expected if all were alike",
            ),
        )


def downgrade() -> None:
    op.drop_column("site_plans", "days_even")
    op.drop_column("site_plans", "hours_even")
