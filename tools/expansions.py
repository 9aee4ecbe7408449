"""What a migration may do that claims to keep processes of earlier revisions running: `python -m
tools.expansions` lists claims that are wrong.

`compatible_from` says which processes run on. A migration that leaves it as its predecessor did may
only add: these forms of statements, and no others. One that raises it, since the processes from
there on no longer use something, may drop that as well. Neither may rewrite or scan a table that is
in use while it is locked, or build an index on it within a transaction.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

from alembic.script import Script, ScriptDirectory

from scraper.infra import migrations
from scraper.plugins.database.plan import list_statements

_TYPE = r"""(?:bigint|integer|int|smallint|text|boolean|jsonb|uuid|numeric|real|float|date|bytea
    |inet|double\ precision|timestamptz|timestamp\ with(?:out)?\ time\ zone|interval
    |varchar|tsvector)
    (?:\(\d+(?:,\ ?\d+)?\))?(?:\[\])?"""
# Others are computed for each row, which rewrites the table.
_CONSTANT = r"""(?:'(?:[^']|'')*'(?:::\w+(?:\[\])?)?|-?\d+(?:\.\d+)?|true|false|null|now\(\)
    |CURRENT_TIMESTAMP)"""
_NAME = r'"?\w+"?'
_INDEX_APART = rf"CREATE\ INDEX\ CONCURRENTLY\ IF\ NOT\ EXISTS\ {_NAME}\ ON\ .*"
_ADDS = (
    rf"ALTER\ TABLE\ {_NAME}\ ADD\ COLUMN\ {_NAME}\ {_TYPE}"
    rf"(?:\ DEFAULT\ {_CONSTANT}(?:\ NOT\ NULL)?|\ NULL)?",
    rf"ALTER\ TABLE\ {_NAME}\ SET\ \([^()]*\)",
    r"COMMENT\ ON\ .*",
    r"CREATE\ (?:FUNCTION|VIEW|SEQUENCE)\ .*",
    # A table of one row.
    r"UPDATE\ feed\ SET\ .*",
    _INDEX_APART,
)
_DROPS = (
    rf"ALTER\ TABLE\ {_NAME}\ DROP\ COLUMN\ {_NAME}",
    r"DROP\ (?:TABLE|VIEW|FUNCTION|SEQUENCE|INDEX|TRIGGER)\ (?:(?!CASCADE).)*",
)
_QUOTED = re.compile(r"'(?:[^']|'')*'|(\$\w*\$).*?\1", re.DOTALL)
# Of tables that the migration itself creates.
_OF_NEW = r"(?:CREATE\ (?:UNIQUE\ )?INDEX|CREATE\ TRIGGER|INSERT\ INTO|ALTER\ TABLE|UPDATE)\ .*"


def find_wrong_claims(history: migrations.History) -> Iterator[str]:
    """Yields a line for each statement that a claim does not allow."""
    scripts = ScriptDirectory.from_config(migrations.config(history))
    former: Script | None = None
    for script in reversed(list(scripts.walk_revisions())):
        for problem in _check_migration(history, script, former):
            yield f"{history.name} {script.revision}: {problem}"
        former = script


def _check_migration(
    history: migrations.History, script: Script, former: Script | None
) -> Iterator[str]:
    oldest = migrations.compatible_from(script.module)
    if oldest == script.revision:
        return
    before = migrations.compatible_from(former.module) if former else script.revision
    if not before <= oldest < script.revision:
        yield f"compatible_from is {oldest}: it must be one from {before} on, before its own"
    statements = [
        row.sql for row in list_statements(history, script.revision, str(script.down_revision))
    ]
    yield from find_problems(statements, may_drop=oldest > before)


def find_problems(statements: list[str], *, may_drop: bool = False) -> Iterator[str]:
    """Yields what may stop a process of an earlier revision, or hold it up for long."""
    created: set[str] = set()
    texts = [" ".join(statement.split()) for statement in statements]
    for text in texts:
        if ";" in _QUOTED.sub("", text):
            yield f"is more than one statement: {text}"
        elif table := _match_form(rf"CREATE\ TABLE\ ({_NAME})\ .*", text):
            created.add(table[1].strip('"'))
            if re.search(r"REFERENCES (?!.*ON DELETE)", text):
                yield f"old processes cannot delete what the new table references: {text}"
        elif _match_form(_OF_NEW, text) and _names_of(text) & created:
            continue
        elif not any(_match_form(form, text) for form in (*_ADDS, *(_DROPS if may_drop else ()))):
            yield f"is not known to let processes run on: {text}"
    apart = [text for text in texts if _match_form(_INDEX_APART, text)]
    if apart and len(apart) < len(texts):
        yield "an index that is built concurrently needs a migration of its own, to be run again"


def _match_form(form: str, text: str) -> re.Match[str] | None:
    return re.fullmatch(form, text, re.VERBOSE | re.IGNORECASE | re.DOTALL)


def _names_of(text: str) -> set[str]:
    """Returns the table that a statement of `_OF_NEW` changes."""
    table = re.match(
        rf"(?:CREATE .*? ON|INSERT INTO|ALTER TABLE|UPDATE) (?:ONLY )?({_NAME})",
        text,
        re.IGNORECASE,
    )
    return {table[1].strip('"')} if table else set()


def main() -> None:
    problems = [line for history in migrations.histories() for line in find_wrong_claims(history)]
    print("\n".join(problems) or "all claims hold")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
