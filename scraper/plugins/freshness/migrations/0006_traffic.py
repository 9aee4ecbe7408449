"""what a site's requests use"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None
compatible_from = "0005"


def count(name: str, comment: str | None = None) -> sa.Column[object]:
    return sa.Column(name, sa.BigInteger(), nullable=False, comment=comment)


def upgrade() -> None:
    op.create_table(
        "site_traffic",
        sa.Column("site_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="when the ten minutes begin",
        ),
        sa.Column("product", sa.Boolean(), nullable=False, comment="false: all other pages"),
        count("requests"),
        count("sized", "of these: of a known size"),
        count("bytes", "of their bodies, as they came"),
        count("proxied", "requests through proxies"),
        count("proxy_sized"),
        count("proxy_bytes"),
        sa.PrimaryKeyConstraint("site_id", "at", "product", name="site_traffic_pkey"),
        postgresql_with={"fillfactor": 80},
    )


def downgrade() -> None:
    op.drop_table("site_traffic")
