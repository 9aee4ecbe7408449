"""the index of products' words and codes"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# The words of a product's name and brand, and its codes as shops write them: each a lexeme of its
# own, since the parser would split `AB-12/3`. Limits keep an endless name or code from making a
# crawl's statement fail. An id that is a URL is no code.
PRODUCT_WORDS = """
CREATE FUNCTION product_words(data jsonb, external_id text) RETURNS tsvector
IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
SELECT to_tsvector('pg_catalog.simple',
                   left(coalesce(data ->> 'name', data ->> 'title', ''), 500) || ' ' ||
                   left(coalesce(data ->> 'brand', ''), 100))
       || array_to_tsvector(array_remove(array_remove(ARRAY[
              ltrim(left(data ->> 'gtin', 100), '0'),
              lower(left(data ->> 'sku', 100)),
              lower(left(data ->> 'mpn', 100)),
              CASE WHEN external_id NOT LIKE 'http%' THEN lower(left(external_id, 100)) END
          ], NULL), ''))
$$
"""
INDEX = "CREATE INDEX products_words_idx ON products USING gin (product_words(data, external_id))"


def upgrade() -> None:
    op.execute(PRODUCT_WORDS)
    op.execute(INDEX)


def downgrade() -> None:
    op.execute("DROP INDEX products_words_idx")
    op.execute("DROP FUNCTION product_words(jsonb, text)")
