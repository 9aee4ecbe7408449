"""Every migration up, down and up again, and the tables compared with the models: `python -m
tools.migrations`.

Runs on an embedded server of its own in a temporary folder, which is removed at the end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import sqlalchemy as sa
from alembic.script import ScriptDirectory

from alembic import command
from scraper.infra import migrations
from scraper.infra.database import make_engine
from scraper.plugins.embedded import servers
from scraper.settings import Settings

LEFT_BEHIND = sa.text("""
SELECT relname FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relname !~ '^alembic_version'
""")


def revisions() -> list[str]:
    """Oldest first."""
    scripts = ScriptDirectory.from_config(migrations.config())
    return [script.revision for script in scripts.walk_revisions()][::-1]


def there_and_back(engine: sa.Engine) -> None:
    """Up to the newest revision, the models compared, down to nothing, up again. Raises where a
    step fails."""
    migrations.upgrade(engine)
    migrations.require_current(engine)
    _check_models(engine)
    for history in migrations.histories()[1:]:
        migrations.downgrade(engine, "base", history.name)
    down(engine, "base")
    with engine.connect() as connection:
        left = list(connection.execute(LEFT_BEHIND).scalars())
    assert not left, f"downgrading to nothing leaves {', '.join(left)}"
    migrations.upgrade(engine)
    _check_models(engine)


def down(engine: sa.Engine, revision: str) -> None:
    migrations.downgrade(engine, revision)


def _check_models(engine: sa.Engine) -> None:
    config = migrations.config()
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        command.check(config)


def main() -> None:
    for name in ("DATABASE_URL", "REDIS_URL"):
        os.environ.pop(name, None)
    home = Path(tempfile.mkdtemp(prefix="scraper-migrations-"))
    settings = Settings(home=home)
    try:
        servers.up(settings)
        engine = make_engine(settings.postgres_url)
        there_and_back(engine)
        engine.dispose()
    finally:
        servers.down(settings)
        shutil.rmtree(home, ignore_errors=True)
    print(f"migrations {', '.join(revisions())}: up, down and up again, and equal to the models")


if __name__ == "__main__":
    main()
