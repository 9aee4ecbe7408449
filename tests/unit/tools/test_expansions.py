"""A migration that claims to keep earlier processes running only adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from scraper.infra import migrations
from tests.support.next_migrations import HEAD, INDEX, NextMigrations, execute
from tools.expansions import find_problems, find_wrong_claims


@pytest.mark.parametrize("history", migrations.histories(), ids=lambda history: history.name)
def test_claims_of_the_migrations_hold(history: migrations.History) -> None:
    assert list(find_wrong_claims(history)) == []


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE pages ADD COLUMN colour text",
        "ALTER TABLE pages ADD COLUMN seen TIMESTAMP WITH TIME ZONE",
        "ALTER TABLE pages ADD COLUMN n NUMERIC(10, 2) DEFAULT 0 NOT NULL",
        "ALTER TABLE pages ADD COLUMN n FLOAT[] DEFAULT '{0,0}' NOT NULL",
        "ALTER TABLE pages ADD COLUMN n boolean DEFAULT false NOT NULL",
        "ALTER TABLE pages ADD COLUMN n timestamptz DEFAULT now() NOT NULL",
        "CREATE TABLE colours (\n  id bigint PRIMARY KEY,\n  name text NOT NULL\n)",
        "CREATE TABLE colours (page bigint REFERENCES pages ON DELETE CASCADE)",
        "CREATE INDEX CONCURRENTLY IF NOT EXISTS pages_x_idx ON pages (url)",
        "COMMENT ON COLUMN pages.url IS 'x'",
        "CREATE VIEW colours AS SELECT 1",
        "ALTER TABLE pages SET (fillfactor = 80)",
        "UPDATE feed SET server = 'x' WHERE server IS NULL",
    ],
)
def test_what_adds_is_an_expansion(statement: str) -> None:
    assert list(find_problems([statement])) == []


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE pages DROP COLUMN url",
        "ALTER TABLE pages RENAME TO sheets",
        "ALTER TABLE pages RENAME COLUMN url TO address",
        "ALTER TABLE pages ALTER COLUMN attempts TYPE bigint",
        "ALTER TABLE pages ALTER COLUMN note SET NOT NULL",
        "ALTER TABLE pages ALTER COLUMN note DROP NOT NULL",
        "ALTER TABLE pages ADD COLUMN n int NOT NULL",
        "ALTER TABLE pages ADD COLUMN n int DEFAULT NULL NOT NULL, DROP COLUMN url",
        "ALTER TABLE pages ADD COLUMN n uuid DEFAULT gen_random_uuid() NOT NULL",
        "ALTER TABLE pages ADD COLUMN n timestamptz DEFAULT clock_timestamp()",
        "ALTER TABLE pages ADD COLUMN n bigint GENERATED ALWAYS AS IDENTITY",
        "ALTER TABLE pages ADD COLUMN n bigserial",
        "ALTER TABLE pages ADD COLUMN n int UNIQUE",
        "ALTER TABLE pages ADD COLUMN n int REFERENCES sites (id)",
        "ALTER TABLE pages ADD COLUMN n int DEFAULT 1 CHECK (n > 0)",
        "ALTER TABLE pages ADD CONSTRAINT c CHECK (priority > 0)",
        "ALTER TABLE pages ADD CONSTRAINT c UNIQUE (url)",
        "ALTER TABLE pages SET TABLESPACE other",
        "CREATE INDEX pages_x_idx ON pages (url)",
        "CREATE INDEX CONCURRENTLY pages_x_idx ON pages (url)",
        "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS pages_x_idx ON pages (url)",
        "CREATE OR REPLACE FUNCTION begin_timeline() RETURNS trigger AS $$ $$",
        "CREATE TRIGGER t BEFORE INSERT ON pages EXECUTE FUNCTION f()",
        "CREATE TABLE colours (page bigint REFERENCES pages)",
        "UPDATE pages SET priority = 1",
        "UPDATE feed SET server = 'x'; DROP TABLE feed",
        "DELETE FROM pages",
        "INSERT INTO sites (name) VALUES ('x')",
        "DROP TABLE pages",
        "TRUNCATE pages",
        "DROP INDEX pages_x_idx",
        "LOCK TABLE pages",
        "VACUUM FULL pages",
        "DO $$ BEGIN EXECUTE 'DROP TABLE pages'; END $$",
        "SELECT 1; DROP TABLE pages",
        "COMMENT ON COLUMN pages.url IS 'x'; DROP TABLE pages",
        "CREATE TABLE colours (name text); DROP TABLE pages",
    ],
)
def test_anything_else_is_refused(statement: str) -> None:
    assert list(find_problems([statement])) != []


def test_a_new_table_may_be_filled_and_indexed() -> None:
    new = ["CREATE TABLE colours (name text)", "CREATE UNIQUE INDEX c_idx ON colours (name)"]
    assert list(find_problems([*new, "INSERT INTO colours VALUES ('red')"])) == []
    assert list(find_problems([*new, "INSERT INTO sites SELECT name FROM colours"])) != []
    assert list(find_problems([*new, "UPDATE pages SET url = name FROM colours"])) != []


def test_only_what_no_process_uses_any_longer_is_dropped() -> None:
    for statement in ("ALTER TABLE pages DROP COLUMN url", "DROP TABLE pages"):
        assert list(find_problems([statement], may_drop=True)) == []
    for statement in ("DROP TABLE pages CASCADE", "ALTER TABLE pages RENAME TO sheets"):
        assert list(find_problems([statement], may_drop=True)) != []


def test_what_revisions_claim_is_read_from_their_files(tmp_path: Path) -> None:
    following = NextMigrations(tmp_path / "versions")
    following.add(execute("ALTER TABLE pages ADD COLUMN colour text"))
    following.add(INDEX)
    assert list(find_wrong_claims(following.history)) == []
    dropping = following.add(execute("ALTER TABLE pages DROP COLUMN colour"))
    (problem,) = find_wrong_claims(following.history)
    assert problem.startswith(f"scraper {dropping}: is not known to let")
    following.replace(dropping, f"compatible_from = '{HEAD}'", "")
    assert list(find_wrong_claims(following.history)) == []


def test_a_claim_goes_no_further_back_than_the_one_before(tmp_path: Path) -> None:
    following = NextMigrations(tmp_path / "versions")
    following.add("pass", compatible=None)
    following.add("pass")
    (problem,) = find_wrong_claims(following.history)
    assert f"compatible_from is {HEAD}" in problem


def test_a_concurrent_index_is_alone(tmp_path: Path) -> None:
    following = NextMigrations(tmp_path / "versions")
    following.add(execute("ALTER TABLE pages ADD COLUMN colour text") + "\n    " + INDEX)
    (problem,) = find_wrong_claims(following.history)
    assert "a migration of its own" in problem
