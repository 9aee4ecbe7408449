"""crawls: how many products got another price; recipients of alerts are known by their address"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0024'
down_revision = '0023'
branch_labels = None
depends_on = None

REPRICED = "of products_changed: a price is another one in the same currency; less what was taken back"
RECIPIENTS = {
    'alerts': ('recipients that have it: line and kind, never the address',
               'recipients that have it: kind and a short hash, never the address'),
    'price_alerts': ('recipients that have it: line and kind', 'recipients that have it: kind and a short hash'),
}

# What a site's page shows of the last thirty days. A version that the crawl which wrote it has
# ended as well is one that was taken back.
COUNT = """
UPDATE crawls c SET products_repriced = counted.products
  FROM (SELECT o.crawl_id, count(*) AS products
          FROM product_versions o
          JOIN products p ON p.id = o.product_id
          LEFT JOIN product_versions b ON b.product_id = o.product_id AND b.version = o.version - 1
          LEFT JOIN product_versions n ON n.product_id = o.product_id AND n.version = o.version + 1
         WHERE o.valid_to > now() - interval '31 days'
           AND b.crawl_id IS DISTINCT FROM o.crawl_id AND n.crawl_id IS DISTINCT FROM o.crawl_id
           AND EXISTS (
               SELECT FROM jsonb_each(o.data) f, (SELECT coalesce(n.data, p.data)) AS after(data)
                WHERE o.data ? (f.key || '_currency') AND jsonb_typeof(f.value) = 'number'
                  AND jsonb_typeof(after.data -> f.key) = 'number' AND after.data -> f.key <> f.value
                  AND after.data -> (f.key || '_currency') = o.data -> (f.key || '_currency'))
         GROUP BY o.crawl_id) counted
 WHERE c.id = counted.crawl_id
"""


def upgrade() -> None:
    op.add_column('crawls', sa.Column('products_repriced', sa.Integer(), server_default=sa.text('0'), nullable=False,
                                      comment=REPRICED))
    op.execute(COUNT)
    for table, (_, comment) in RECIPIENTS.items():
        op.alter_column(table, 'delivered', comment=comment)


def downgrade() -> None:
    for table, (comment, _) in RECIPIENTS.items():
        op.alter_column(table, 'delivered', comment=comment)
    op.drop_column('crawls', 'products_repriced')
