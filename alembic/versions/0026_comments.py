"""comments of columns, in plain English"""

from __future__ import annotations

from alembic import op

revision = '0026'
down_revision = '0025'
branch_labels = None
depends_on = None

# Table, column, old comment, new comment. A comment changes the catalogue alone.
COMMENTS = (
    (
        'sites', 'filter_id',
        'names its Bloom filter in Redis; another one has forgotten everything',
        'names its Bloom filter in Redis; a new id means an empty filter',
    ),
    (
        'crawls', 'slot',
        'the scheduled time it stands for',
        'the scheduled time for which it was opened',
    ),
    (
        'crawls', 'fresh_after',
        'products fetched later than this are not fetched again; null: all are',
        'products fetched later than this are not fetched again; null: all are fetched',
    ),
    (
        'crawls', 'stale_before',
        'until then, by their own interval; fetched earlier, they are in any case; '
        'null: no such interval',
        'products with an interval of their own are due by it, and in any case if '
        'fetched before this; null: no such interval',
    ),
    (
        'crawls', 'whole_before',
        'products read no later than this are asked for without validators',
        'products read no later than this are requested without validators',
    ),
    (
        'crawls', 'watched_at',
        'when a coordinator last looked whether it moves',
        'when a coordinator last checked its progress',
    ),
    (
        'crawls', 'idle_minutes',
        'looks in a row, a minute apart, that found no progress',
        'consecutive checks, a minute apart, without progress',
    ),
    (
        'crawls', 'fresh',
        'of unchanged: not asked again',
        'of unchanged: not requested again',
    ),
    (
        'crawls', 'links_fruitless',
        'to listings behind too many that brought nothing new',
        'to listings behind too many listings without new links',
    ),
    (
        'crawls', 'products_repriced',
        'of products_changed: a price is another one in the same currency; less what '
        'was taken back',
        'of products_changed: with another price in the same currency, without rejected'
        ' changes',
    ),
    (
        'crawls', 'suspect',
        'its data is not to be trusted',
        'its data cannot be trusted',
    ),
    (
        'crawls', 'accepted_at',
        'when it was taken as the new usual: nothing before it counts any more',
        'when it was accepted as the new normal: earlier crawls no longer count',
    ),
    (
        'crawls', 'holds_new',
        'products that nobody knows yet wait until it is judged',
        'new products wait until it is judged',
    ),
    (
        'crawls', 'asking',
        'all else is read: it asks for the pages of what it would delist',
        'everything else is read; it fetches the pages of products that it would delist',
    ),
    (
        'crawls', 'filter_id',
        'the Bloom filter it asks; null: finished pages stay in the frontier',
        'its Bloom filter; null: finished pages stay in the frontier',
    ),
    (
        'crawls', 'products_listed',
        'about how many its listings named; null: not counted',
        'about how many products its listings named; null: not counted',
    ),
    (
        'pages', 'fruitless',
        'steps through listings that brought nothing new, up to here',
        'consecutive listings without new links on the way to it',
    ),
    (
        'pages', 'level',
        "the capability it has come to, above its host's",
        "the tier that it has reached, above its host's",
    ),
    (
        'pages', 'blocked',
        'blocks where it is',
        'blocks at its present tier',
    ),
    (
        'pages', 'probe',
        'to try a cheaper way for its host',
        'tries a lower tier for its host',
    ),
    (
        'pages', 'etag',
        "a product page's, as it came",
        "a product page's, as received",
    ),
    (
        'pages', 'body_hash',
        'of its body as it came, packed: the same again is not read',
        'of its body as received; a body with the same hash is not read again',
    ),
    (
        'leases', 'pages',
        'that it was made with',
        'the number of pages when it was made',
    ),
    (
        'leases', 'claim',
        'whose answer was lost may claim again with the same one',
        'a worker whose reply was lost may claim again with the same id',
    ),
    (
        'leases', 'alone',
        'its worker does nothing else meanwhile',
        'its worker runs no other batch at the same time',
    ),
    (
        'throughput', 'seconds',
        'that requests were under way, summed',
        "the sum of the requests' durations",
    ),
    (
        'crawl_hosts', 'failures',
        'of these: gave nothing, and somebody is to blame',
        'of these: failed, with a party to blame',
    ),
    (
        'products', 'absent_since',
        'its page, which has several products, was read without it, and since then '
        'never with it',
        'since when its page, which has several products, is read without it',
    ),
    (
        'products', 'asked_by',
        'the last crawl that asked for its page, since no listing named it',
        'the last crawl that fetched its page because no listing named it',
    ),
    (
        'changes', 'previous_version',
        'null: its content is no other',
        'null: its content is the same',
    ),
    (
        'consumers', 'position',
        'has read so far',
        'the last position that it has read',
    ),
    (
        'feed', 'trimmed',
        'changes up to this position are forgotten',
        'changes up to this position are deleted',
    ),
    (
        'crawl_fields', 'mistyped',
        'of these with something else than a value of its type',
        'of these with a value of the wrong type',
    ),
    (
        'crawl_fields', 'compared',
        'products that were known before, and read',
        'products that were stored before and read',
    ),
    (
        'crawl_fields', 'held',
        'values that are not believed, and wait',
        'values that are held back',
    ),
    (
        'crawl_examples', 'nowhere',
        'the value that the product has is in no place of the page',
        "the product's value is nowhere on the page",
    ),
    (
        'held_values', 'since_crawl_id',
        'the first crawl that read this very value, with none in between',
        'the first crawl that read this value, with no other value in between',
    ),
    (
        'held_values', 'value',
        'what its keys would hold; empty: it vanished',
        "its keys' new values; empty: it vanished",
    ),
    (
        'held_values', 'reason',
        'why it is not believed; null: its crawl is not judged yet',
        'why it is held back; null: its crawl is not judged yet',
    ),
    (
        'held_products', 'since_crawl_id',
        'the first crawl that read these very values, with none in between',
        'the first crawl that read these values, with no others in between',
    ),
    (
        'held_products', 'reason',
        'why it is not believed; null: its crawl is not judged yet',
        'why it is held back; null: its crawl is not judged yet',
    ),
)  # fmt: skip


def upgrade() -> None:
    for table, column, _, comment in COMMENTS:
        op.alter_column(table, column, comment=comment)


def downgrade() -> None:
    for table, column, comment, _ in COMMENTS:
        op.alter_column(table, column, comment=comment)
