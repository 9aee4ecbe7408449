"""Writes products as Parquet, with zstd: columns typed by the site's definition, and row groups
written while products are read.

The types depend only on the definition, never on values, so that files of different days fit
together:

    text, url                    string
    int                          int64
    bool                         bool
    price, decimal               decimal(38, 9)
    date                         date; timestamp if its `format` has a time, in UTC if the format
                                 has an offset (%z)
    list, many                   list of the type
    first_seen_at, changed_at …  timestamp in us, UTC
    fields not in the definition string: text unchanged, other values as JSON

A value that does not fit its column (the field had another type earlier, more than nine decimals, a
number beyond 64 bits) is null there, and is kept in `_misfits`, a JSON object: no value is lost or
rounded. A date with a time in a column of dates leaves its day there, and the whole value in
`_misfits`. decimal(38, 9) is BigQuery's NUMERIC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import IO, Any, NamedTuple

from scraper.errors import ConfigError
from scraper.infra.database import dumps
from scraper.sites.definition import Site
from scraper.sites.grammar.fields import FieldSpec
from scraper.views.rows import LAST_COLUMNS, Table, column_of

MISFITS = "_misfits"
# A row group ends at the first of these limits.
ROWS, CHARS = 10_000, 32_000_000
SCALE, DIGITS = 9, 38
INT_MAX = 2**63
TIME_CODES = ("%H", "%I", "%M", "%S", "%X", "%c", "%f")


class Misfit(Exception):
    """A value does not fit its column's type. The column receives `replacement`."""

    def __init__(self, replacement: Any = None) -> None:
        super().__init__()
        self.replacement = replacement


class ColumnType(NamedTuple):
    """Makes a column's type, given pyarrow, and its values. `value` raises `Misfit`."""

    arrow: Callable[[Any], Any]
    value: Callable[[Any], Any]


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _to_int(value: Any) -> int:
    if not _is_number(value) or value % 1 != 0 or not -INT_MAX <= value < INT_MAX:
        raise Misfit
    return int(value)


def _to_decimal(value: Any) -> Decimal:
    if not _is_number(value):
        raise Misfit
    number = Decimal(value)
    if number.adjusted() >= DIGITS - SCALE:
        raise Misfit
    _, digits, exponent = number.as_tuple()
    if isinstance(exponent, str) or any(
        digits[max(0, len(digits) + exponent + SCALE) :] if exponent < -SCALE else ()
    ):
        raise Misfit
    return Decimal(format(number, f".{SCALE}f")) if exponent < -SCALE else number


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _to_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Misfit
    return value


def _to_date(value: Any) -> date:
    at = _parse_time(value)
    if len(value) > len("2025-11-21"):
        raise Misfit(at.date())
    return at.date()


def _to_local_time(value: Any) -> datetime:
    at = _parse_time(value)
    if at.tzinfo is not None:
        raise Misfit
    return at


def _to_utc_time(value: Any) -> datetime:
    at = _parse_time(value)
    if at.tzinfo is None:
        raise Misfit
    try:
        return at.astimezone(UTC)
    except OverflowError:
        # On the first or last day of the calendar, in another zone.
        raise Misfit from None


def _parse_time(value: Any) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise Misfit from None


TEXT = ColumnType(lambda pa: pa.string(), _to_text)
UTC_TIME = ColumnType(lambda pa: pa.timestamp("us", tz="UTC"), _to_utc_time)
NAIVE_TIME = ColumnType(lambda pa: pa.timestamp("us"), _to_local_time)
COLUMN_TYPES = {
    "int": ColumnType(lambda pa: pa.int64(), _to_int),
    "decimal": ColumnType(lambda pa: pa.decimal128(DIGITS, SCALE), _to_decimal),
    "price": ColumnType(lambda pa: pa.decimal128(DIGITS, SCALE), _to_decimal),
    "bool": ColumnType(lambda pa: pa.bool_(), _to_bool),
    "date": ColumnType(lambda pa: pa.date32(), _to_date),
}


def list_of(type_: ColumnType) -> ColumnType:
    def convert(values: Any) -> list[Any]:
        if not isinstance(values, list) or None in values:
            raise Misfit
        try:
            return [type_.value(value) for value in values]
        except Misfit:
            raise Misfit from None

    return ColumnType(lambda pa: pa.list_(type_.arrow(pa)), convert)


def column_type(spec: FieldSpec) -> ColumnType:
    if spec.type == "list":
        return list_of(TEXT)
    type_ = COLUMN_TYPES.get(spec.type, TEXT)
    if spec.type == "date":
        layouts = [
            layout for layout in (spec.format, *(other.format for other in spec.any)) if layout
        ]
        if layouts and all(any(code in layout for code in TIME_CODES) for layout in layouts):
            type_ = UTC_TIME if all("%z" in layout for layout in layouts) else NAIVE_TIME
    return list_of(type_) if spec.many else type_


def column_types(columns: list[str], definition: Site) -> dict[str, ColumnType]:
    fields = definition.product.all_fields
    named = {column_of(name): column_type(spec) for name, spec in fields.items()}
    times = dict.fromkeys(LAST_COLUMNS, UTC_TIME)
    return {name: named.get(name) or times.get(name) or TEXT for name in columns}


def write_parquet(
    table: Table, file: IO[bytes], definition: Site, metadata: Mapping[str, Any]
) -> int:
    """Writes the rows, and `metadata` as JSON under `scraper` in the file's metadata. Returns the
    number of rows."""
    import pyarrow as pa
    import pyarrow.parquet

    columns = column_types(table.columns, definition)
    schema = pa.schema(
        [(name, type_.arrow(pa)) for name, type_ in columns.items()] + [(MISFITS, pa.string())],
        metadata={"scraper": dumps(metadata)},
    )
    count = 0
    with pa.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        group: dict[str, list[Any]] = {name: [] for name in (*columns, MISFITS)}
        rows = chars = 0
        for row in table.rows:
            chars += _add_row(group, columns, row)
            rows += 1
            if rows >= ROWS or chars >= CHARS:
                _write_group(pa, writer, schema, group)
                count, rows, chars = count + rows, 0, 0
        if rows:
            _write_group(pa, writer, schema, group)
    return count + rows


def _add_row(
    group: dict[str, list[Any]], columns: Mapping[str, ColumnType], row: Mapping[str, Any]
) -> int:
    """Adds a row to the group. Returns its approximate size in characters."""
    misfits: dict[str, Any] = {}
    chars = 0
    for name, type_ in columns.items():
        value = row[name]
        if value is not None:
            try:
                chars += len(str(value)) if isinstance(value, str | list | dict) else 8
                value = type_.value(value)
            except Misfit as misfit:
                misfits[name] = value
                value = misfit.replacement
        group[name].append(value)
    group[MISFITS].append(dumps(misfits) if misfits else None)
    return chars


def _write_group(pa: Any, writer: Any, schema: Any, group: dict[str, list[Any]]) -> None:
    arrays = [pa.array(group[field.name], type=field.type) for field in schema]
    writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=ROWS)
    for values in group.values():
        values.clear()


class ParquetForm:
    """The `ExportForm` of `scraper export --format parquet`."""

    def write(
        self, table: Table, file: IO[bytes], definition: Site, metadata: dict[str, Any]
    ) -> int:
        if table.parts:
            raise ConfigError(
                "a Parquet file has the columns of one site (fix: a file for each SITE, or "
                "--format csv, jsonl or xlsx)"
            )
        return write_parquet(table, file, definition, metadata)


FORM = ParquetForm()
