"""Writes products as an Excel workbook, row by row, a sheet for each site.

Text is always a text cell: a spreadsheet never runs it as a formula, nor makes it a link. Text that
begins like a formula also has the prefix of text, so that it stays text when a person edits it.
Numbers are numbers up to the 15 digits that a spreadsheet keeps, and text beyond. Times are in UTC.

XlsxWriter was chosen by measure: 100,000 rows of nine columns take 21 MB of memory and two thirds
of the CPU of openpyxl's write-only mode, which takes 29 MB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from typing import IO, Any

import xlsxwriter

from scraper.errors import ConfigError
from scraper.infra.database import dumps
from scraper.sites.definition import Site
from scraper.views.rows import LAST_COLUMNS, Table, is_like_formula

# A sheet's limits: its rows, with the header, the characters of a cell and of a sheet's name, and
# columns.
ROWS_MAX, CHARS_MAX, NAME_MAX, COLUMNS_MAX = 1_048_576, 32_767, 31, 16_384
DIGITS_MAX = 15
EXPONENT_MAX = 300
CUT = "…"


class XlsxForm:
    """The `ExportForm` of `scraper export --format xlsx`."""

    def write(
        self, table: Table, file: IO[bytes], definition: Site, metadata: dict[str, Any]
    ) -> int:
        return write_workbook(table.parts or {str(metadata["site"]): table}, file)


FORM = XlsxForm()


def write_workbook(tables: Mapping[str, Table], file: IO[bytes]) -> int:
    """Writes a sheet for each table, and further ones where a table exceeds a sheet. Returns the
    number of rows."""
    # With constant_memory, XlsxWriter keeps one row; the others are in temporary files.
    book = xlsxwriter.Workbook(file, {"constant_memory": True})
    book.use_zip64()
    count, names = 0, set[str]()
    for site, table in tables.items():
        rows = iter(table.rows)
        written = ROWS_MAX - 1
        while written == ROWS_MAX - 1:
            sheet = _Sheet(book, sheet_name(site, names), table.columns)
            written = sheet.write_rows(islice(rows, ROWS_MAX - 1))
            count += written
    book.close()
    return count


def sheet_name(site: str, names: set[str]) -> str:
    """Returns a name that no sheet has, of what spreadsheets allow, and adds it to `names`.

    >>> sheet_name("a/b", set())
    'a_b'
    """
    base = re.sub(r"[\[\]:*?/\\\x00-\x1f]|^'|'$", "_", site) or "_"
    base = f"{base}_" if base.casefold() == "history" else base
    name, number = base[:NAME_MAX], 1
    while name.casefold() in names:
        number += 1
        end = f" ({number})"
        name = base[: NAME_MAX - len(end)] + end
    names.add(name.casefold())
    return name


class _Sheet:
    """A sheet with a bold header that stays in view."""

    def __init__(self, book: Any, name: str, columns: list[str]) -> None:
        if len(columns) > COLUMNS_MAX:
            raise ConfigError(f"{name}: a sheet has at most {COLUMNS_MAX:,} columns (fix: csv)")
        self.sheet = book.add_worksheet(name)
        self.columns = columns
        self.formula_like = _shared_format(book, quote_prefix=True)
        self.time = _shared_format(book, num_format="yyyy-mm-dd hh:mm:ss")
        self.sheet.freeze_panes(1, 0)
        for column, title in enumerate(columns):
            self.sheet.write_string(0, column, title[:CHARS_MAX], _shared_format(book, bold=True))

    def write_rows(self, rows: Iterable[dict[str, Any]]) -> int:
        """Returns the number of rows."""
        number = 0
        for number, row in enumerate(rows, 1):
            for column, name in enumerate(self.columns):
                if row[name] is not None:
                    self._write_cell(number, column, name, row[name])
        if self.columns:
            self.sheet.autofilter(0, 0, max(number, 1), len(self.columns) - 1)
        return number

    def _write_cell(self, row: int, column: int, name: str, value: Any) -> None:
        if isinstance(value, bool):
            self.sheet.write_boolean(row, column, value)
        elif isinstance(value, int | Decimal) and fits_number(Decimal(value)):
            self.sheet.write_number(row, column, value)
        elif name in LAST_COLUMNS and isinstance(value, str):
            at = datetime.fromisoformat(value).astimezone(UTC).replace(tzinfo=None)
            self.sheet.write_datetime(row, column, at, self.time)
        else:
            text = cell_text(value)
            style = self.formula_like if is_like_formula(text) else None
            self.sheet.write_string(row, column, text, style)


def fits_number(number: Decimal) -> bool:
    """Returns True if a spreadsheet, which keeps doubles, shows the number as it is."""
    digits = number.normalize().as_tuple().digits
    return len(digits) <= DIGITS_MAX and (not number or abs(number.adjusted()) < EXPONENT_MAX)


def cell_text(value: Any) -> str:
    text = value if isinstance(value, str) else _to_text(value)
    return text if len(text) <= CHARS_MAX else text[: CHARS_MAX - len(CUT)] + CUT


def _to_text(value: Any) -> str:
    return format(Decimal(value), "f") if isinstance(value, int | Decimal) else dumps(value)


def _shared_format(book: Any, **properties: Any) -> Any:
    """Returns a format; XlsxWriter stores equal ones once."""
    return book.add_format(properties)
