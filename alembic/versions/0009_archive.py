"""archive: raw pages in WARC segments, and which record is whose"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None

BEFORE = 'schedule, manual, or replay (of dead pages)'
AFTER = 'schedule, manual, replay (of dead pages), or reextract (of archived ones)'


def upgrade() -> None:
    op.create_table(
        'archive_segments',
        sa.Column('id', sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column('place', sa.Text(), nullable=False, comment='a folder, or s3://bucket/prefix'),
        sa.Column('key', sa.Text(), nullable=False, comment='the file within its place'),
        sa.Column('codec', sa.Text(), nullable=False, comment='gzip or zstd'),
        sa.Column('pages', sa.Integer(), server_default=sa.text('0'), nullable=False, comment='rows of archived_pages'),
        sa.Column('bytes', sa.BigInteger(), server_default=sa.text('0'), nullable=False),
        sa.Column('created_at', sa.DateTime(timezone=True), server_default=sa.text('now()'), nullable=False),
        sa.Column('stored_at', sa.DateTime(timezone=True), nullable=True, comment='null: its file may not be whole'),
        sa.Column('doomed_at', sa.DateTime(timezone=True), nullable=True, comment='since then its file may be gone'),
        sa.PrimaryKeyConstraint('id', name=op.f('archive_segments_pkey')),
    )
    op.create_index(
        'archive_segments_empty_idx', 'archive_segments', ['created_at'], postgresql_where=sa.text('pages = 0')
    )
    op.create_table(
        'archived_pages',
        sa.Column('segment_id', sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column('start', sa.BigInteger(), autoincrement=False, nullable=False, comment='the first byte of its record'),
        sa.Column('size', sa.Integer(), nullable=False, comment='of its record, in bytes'),
        sa.Column('body_bytes', sa.Integer(), nullable=False, comment='unpacked'),
        sa.Column(
            'captured_size',
            sa.Integer(),
            server_default=sa.text('0'),
            nullable=False,
            comment='of the record right behind it, in bytes: what a browser captured; 0: nothing',
        ),
        sa.Column('site_id', sa.Integer(), nullable=False),
        sa.Column('page_id', sa.BigInteger(), nullable=False),
        sa.Column('crawl_id', sa.BigInteger(), nullable=False),
        sa.Column('kind', sa.Text(), nullable=False),
        sa.Column('url', sa.Text(), nullable=False),
        sa.Column('final_url', sa.Text(), nullable=True, comment='where it was answered; null: at its own URL'),
        sa.Column('http_status', sa.SmallInteger(), nullable=False),
        sa.Column('content_hash', sa.Uuid(), nullable=True, comment='of what was extracted'),
        sa.Column('fetched_at', sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint('segment_id', 'start', name=op.f('archived_pages_pkey')),
    )
    op.create_index('archived_pages_site_id_fetched_at_idx', 'archived_pages', ['site_id', 'fetched_at'])
    op.alter_column('crawls', 'trigger', existing_type=sa.Text(), existing_nullable=False, comment=AFTER, existing_comment=BEFORE)


def downgrade() -> None:
    op.alter_column('crawls', 'trigger', existing_type=sa.Text(), existing_nullable=False, comment=BEFORE, existing_comment=AFTER)
    op.drop_table('archived_pages')
    op.drop_table('archive_segments')
