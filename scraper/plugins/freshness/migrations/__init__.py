"""The Alembic revisions of the tables."""
