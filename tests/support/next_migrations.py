"""Revisions of a release to come: those of the core, and more in a folder of the test's own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from scraper.infra import migrations

HEAD = migrations.head()
REVISION = '''"""{doc}"""

from alembic import op

revision, down_revision, branch_labels, depends_on = {revision!r}, {former!r}, None, None
{compatible}

def upgrade():
    {up}


def downgrade():
    {down}
'''
INDEX = """with op.get_context().autocommit_block():
        op.execute("CREATE INDEX CONCURRENTLY IF NOT EXISTS pages_url_idx ON pages (url)")"""

VALID = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('pages_url_idx')"


class NextMigrations:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        shutil.copytree(migrations.CORE.folder, folder)
        self.last = HEAD

    @property
    def history(self) -> migrations.History:
        return replace(migrations.CORE, folder=self._folder)

    def add(self, up: str, down: str = "pass", compatible: str | None = HEAD) -> str:
        """Adds a revision, of statements in Python; compatible with none before if None."""
        former, self.last = self.last, f"{int(self.last) + 1:04d}"
        (self._folder / f"{self.last}_next.py").write_text(
            REVISION.format(
                doc=f"change {self.last}",
                revision=self.last,
                former=former,
                compatible=f"compatible_from = {compatible!r}\n" if compatible else "",
                up=up,
                down=down,
            )
        )
        return self.last

    def replace(self, revision: str, old: str, new: str) -> None:
        path = self._folder / f"{revision}_next.py"
        path.write_text(path.read_text().replace(old, new))


def execute(*statements: str) -> str:
    return "\n    ".join(f"op.execute({statement!r})" for statement in statements)
