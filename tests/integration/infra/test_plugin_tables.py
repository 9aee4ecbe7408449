"""Tables that a plug-in from outside adds: migrated up, used, left alone while it is off, and
migrated down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper.infra.database import make_engine
from tests.support.outside_plugin import OutsidePlugin

pytestmark = pytest.mark.slow

PLUGIN = """
from scraper.plugin import Plugin

PLUGIN = Plugin(
    name="notes", summary="notes of sites",
    models="shop_notes.models", migrations="shop_notes.migrations",
)
"""
MODELS = """
from sqlalchemy.orm import Mapped

from scraper.models import Base, row_number


class NoteRow(Base):
    __tablename__ = "notes"

    id: Mapped[int] = row_number()
    text: Mapped[str]
"""
FIRST = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0001", None, None, None


def upgrade():
    op.create_table(
        "notes", sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )


def downgrade():
    op.drop_table("notes")
"""
SECOND = """'all notes in capitals'
from alembic import op

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None


def upgrade():
    op.execute("UPDATE notes SET text = upper(text)")


def downgrade():
    op.execute("UPDATE notes SET text = lower(text)")
"""
CHECK = """
from alembic import command
from scraper.infra import migrations
from scraper.infra.database import make_engine
from tests.support.outside_plugin import OutsidePlugin
import os

engine = make_engine(os.environ["DATABASE_URL"])
assert "notes" in [history.name for history in migrations.histories()]
config = migrations.config()
with engine.begin() as connection:
    config.attributes["connection"] = connection
    command.check(config)
"""


@pytest.fixture
def outside(tmp_path: Path, empty_database: str) -> OutsidePlugin:
    files = {
        "plugin.py": PLUGIN,
        "models.py": MODELS,
        "migrations/__init__.py": "",
        "migrations/0001_notes.py": FIRST,
    }
    return OutsidePlugin(tmp_path, "notes", files, {"DATABASE_URL": empty_database})


@pytest.mark.slow
def test_tables_of_a_plugin_are_migrated_up_and_down(
    outside: OutsidePlugin, empty_database: str
) -> None:
    assert outside.scraper("migrate").returncode == 0
    engine = make_engine(empty_database)
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO notes (text) VALUES ('a note')"))
    checked = outside.run("-c", CHECK)
    assert checked.returncode == 0, checked.stderr

    (outside.package / "migrations" / "0002_upper.py").write_text(SECOND)
    behind = outside.scraper("status")
    assert behind.returncode == 3, behind
    assert "at revision 0001 of the plug-in notes, this program needs 0002" in behind.stderr
    shown = outside.scraper("migrate", "--dry-run")
    assert shown.returncode == 0 and shown.stdout.startswith("notes 0002: all notes in capitals")
    assert "  UPDATE notes SET text = upper(text);  -- notes: ROW EXCLUSIVE\n" in shown.stdout
    assert "stop coordinators and workers first" in shown.stdout
    shown = outside.scraper("migrate", "--dry-run", "--json")
    plan = json.loads(shown.stdout)
    assert plan["processes_run_on"] is False and plan["migrations"][0]["revision"] == "0002"
    # A plug-in that is off neither migrates nor keeps others from working; its rows stay.
    assert outside.scraper("status", SCRAPER_PLUGINS_OFF="notes").returncode == 0
    assert outside.scraper("migrate", SCRAPER_PLUGINS_OFF="notes").returncode == 0
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT text FROM notes")).scalar() == "a note"

    assert outside.scraper("migrate").returncode == 0
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT text FROM notes")).scalar() == "A NOTE"
    second = outside.package / "migrations" / "0002_upper.py"
    second.unlink()
    former = outside.scraper("status")
    assert former.returncode == 3 and "0002 of the plug-in notes, newer than" in former.stderr
    second.write_text(SECOND + "\n\ncompatible_from = '0001'\n")
    assert outside.scraper("migrate", "--down", "0001", "--plugin", "notes").returncode == 0
    assert outside.scraper("migrate").returncode == 0
    second.unlink()
    assert outside.scraper("status").returncode == 0
    assert outside.scraper("migrate", "--dry-run").stdout == "database: up to date\n"
    second.write_text(SECOND)
    assert outside.scraper("migrate", "--down", "0001", "--plugin", "notes").returncode == 0
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT text FROM notes")).scalar() == "a note"
    down = outside.scraper("migrate", "--down", "base", "--plugin", "notes")
    assert (down.returncode, down.stdout) == (0, "database: plug-in notes at revision base\n")
    lacking = outside.scraper("status")
    assert lacking.returncode == 3
    assert "the database has no tables of the plug-in notes, this" in lacking.stderr
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT to_regclass('notes')")).scalar() is None
        assert connection.execute(sa.text("SELECT to_regclass('products')")).scalar() is not None
    engine.dispose()


def test_tables_of_an_uninstalled_plugin_stay_and_come_into_use_again(
    outside: OutsidePlugin,
    empty_database: str,
) -> None:
    assert outside.scraper("migrate").returncode == 0
    engine = make_engine(empty_database)
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO notes (text) VALUES ('a note')"))
    outside.uninstall()
    assert outside.scraper("status").returncode == 0
    assert outside.scraper("migrate").returncode == 0
    unknown = outside.scraper("migrate", "--down", "base", "--plugin", "notes")
    assert unknown.returncode == 2 and "is named 'notes'" in unknown.stderr, unknown
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT text FROM notes")).scalar() == "a note"
    (outside.folder / "uninstalled").rename(outside.folder / "installed")
    assert outside.scraper("status").returncode == 0
    engine.dispose()
