"""seasons, pages that alternate between two contents, and how formulas were kept"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None
compatible_from = "0006"

VISITS = {
    "quiet_looks": "looks that found no change",
    "returns": "changes back to the content before",
    "other_looks": "looks that found the content before",
    "same": "the share of the time with one of two contents; 0: they do not alternate",
}
PLANS = {
    "modelled": "the share that is true by the formula",
    "foreseen_days": "of the days between looks: true by the formula",
}


def number(name: str, kind: Any, comment: str) -> sa.Column[Any]:
    return sa.Column(name, kind, server_default=sa.text("0"), nullable=False, comment=comment)


def upgrade() -> None:
    for name, comment in VISITS.items():
        op.add_column("page_visits", number(name, sa.REAL(), comment))
    older: sa.Column[Any] = sa.Column(
        "older_hash", sa.Uuid(), nullable=True, comment="of the content before the last change"
    )
    op.add_column("page_visits", older)
    for name, comment in PLANS.items():
        op.add_column("site_plans", number(name, sa.Float(), comment))
    season: sa.Column[Any] = sa.Column(
        "season",
        postgresql.ARRAY(sa.Float()),
        server_default=sa.text("'{}'"),
        nullable=False,
        comment="changes that came lately, those that were to come, and when, in days",
    )
    op.add_column("site_plans", season)


def downgrade() -> None:
    for name in ("season", *PLANS):
        op.drop_column("site_plans", name)
    for name in ("older_hash", *VISITS):
        op.drop_column("page_visits", name)
