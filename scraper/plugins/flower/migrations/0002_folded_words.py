"""the index of products' words without accents"""

from __future__ import annotations

from importlib import import_module

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

FIRST = import_module("scraper.plugins.flower.migrations.0001_product_words")

# Letters without their accents, as `fold_accents` in scraper/plugins/flower/search/page.py makes
# them of what is typed. PostgreSQL's own `unaccent` is an extension that servers may lack, and an
# index may not call a function that calls another one of ours. A sign may become eighteen, so codes
# are cut once more.
FOLDED = (
    r"replace(lower(regexp_replace(normalize({}, NFKD), '[\u0300-\u036f]', '', 'g')), 'ß', 'ss')"
)
NAME = FOLDED.format(
    "left(coalesce(data ->> 'name', data ->> 'title', ''), 500) || ' ' || "
    "left(coalesce(data ->> 'brand', ''), 100)"
)
SKU, MPN, ID = (
    f"left({FOLDED.format(f'left({code}, 100)')}, 100)"
    for code in ("data ->> 'sku'", "data ->> 'mpn'", "external_id")
)
PRODUCT_WORDS = f"""
CREATE FUNCTION product_words(data jsonb, external_id text) RETURNS tsvector
IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
SELECT to_tsvector('pg_catalog.simple', {NAME})
       || array_to_tsvector(array_remove(array_remove(ARRAY[
              ltrim(left(data ->> 'gtin', 100), '0'), {SKU}, {MPN},
              CASE WHEN external_id NOT LIKE 'http%' THEN {ID} END
          ], NULL), ''))
$$
"""


def upgrade() -> None:
    op.execute("DROP INDEX products_words_idx")
    op.execute("DROP FUNCTION product_words(jsonb, text)")
    op.execute(PRODUCT_WORDS)
    op.execute(FIRST.INDEX)


def downgrade() -> None:
    op.execute("DROP INDEX products_words_idx")
    op.execute("DROP FUNCTION product_words(jsonb, text)")
    op.execute(FIRST.PRODUCT_WORDS)
    op.execute(FIRST.INDEX)
