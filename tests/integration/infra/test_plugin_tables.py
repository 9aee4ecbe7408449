"""Tables that a plug-in from outside adds: migrated up, used, left alone while it is off, and
migrated down."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper.infra.database import make_engine

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
SECOND = """
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
import os

engine = make_engine(os.environ["DATABASE_URL"])
*_, notes = migrations.histories()
assert notes.name == "notes"
config = migrations.config()
with engine.begin() as connection:
    config.attributes["connection"] = connection
    command.check(config)
"""


class OutsidePlugin:
    """A plug-in that is installed next to this program, and a database."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder, self.database = folder, database
        self.package = folder / "installed" / "shop_notes"
        files = {
            self.package / "__init__.py": "",
            self.package / "plugin.py": PLUGIN,
            self.package / "models.py": MODELS,
            self.package / "migrations" / "__init__.py": "",
            self.package / "migrations" / "0001_notes.py": FIRST,
            folder / "installed" / "shop_notes-1.0.dist-info" / "METADATA": (
                "Metadata-Version: 2.1\nName: shop-notes\nVersion: 1.0\n"
            ),
            folder / "installed" / "shop_notes-1.0.dist-info" / "entry_points.txt": (
                "[scraper.plugins]\nnotes = shop_notes.plugin:PLUGIN\n"
            ),
        }
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (folder / "sites").mkdir()

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if "SCRAPER" not in name}
        environ |= {"PYTHONPATH": str(self.folder / "installed"), "DATABASE_URL": self.database}
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder, env=environ | more, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip

    def uninstall(self) -> None:
        (self.folder / "installed").rename(self.folder / "uninstalled")

    def scraper(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "scraper", *words, **more)


@pytest.fixture
def outside(tmp_path: Path, empty_database: str) -> OutsidePlugin:
    return OutsidePlugin(tmp_path, empty_database)


def test_tables_of_a_plugin_are_migrated_up_and_down(outside: OutsidePlugin) -> None:
    assert outside.scraper("migrate").returncode == 0
    engine = make_engine(outside.database)
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO notes (text) VALUES ('a note')"))
    checked = outside.run("-c", CHECK)
    assert checked.returncode == 0, checked.stderr

    (outside.package / "migrations" / "0002_upper.py").write_text(SECOND)
    behind = outside.scraper("status")
    assert behind.returncode == 3, behind
    assert "at revision 0001 of the plug-in notes, this program needs 0002" in behind.stderr
    # A plug-in that is off neither migrates nor keeps others from working; its rows stay.
    assert outside.scraper("status", SCRAPER_PLUGINS_OFF="notes").returncode == 0
    assert outside.scraper("migrate", SCRAPER_PLUGINS_OFF="notes").returncode == 0
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT text FROM notes")).scalar() == "a note"

    assert outside.scraper("migrate").returncode == 0
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT text FROM notes")).scalar() == "A NOTE"
    assert outside.scraper("migrate", "--down", "0001", "--plugin", "notes").returncode == 0
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT text FROM notes")).scalar() == "a note"
    assert outside.scraper("migrate", "--down", "base", "--plugin", "notes").returncode == 0
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT to_regclass('notes')")).scalar() is None
        assert connection.execute(sa.text("SELECT to_regclass('products')")).scalar() is not None
    engine.dispose()


def test_tables_of_an_uninstalled_plugin_stay_and_come_into_use_again(
    outside: OutsidePlugin,
) -> None:
    assert outside.scraper("migrate").returncode == 0
    engine = make_engine(outside.database)
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
