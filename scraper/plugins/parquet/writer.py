"""Products as Parquet: columns typed by the site's definition, row groups as they are read, zstd.

The types follow from the definition alone, never from the values, so that files of different days
fit together:

    text, url                    string
    int                          int64
    bool                         bool
    price, decimal               decimal(38, 9)
    date                         date; timestamp where its `format` has a time, in UTC where that
                                 has an offset (%z)
    list, many                   list of the type
    first_seen_at, changed_at …  timestamp in us, UTC
    what no definition names     string: text as it is, all else as JSON

A value that does not fit its column (the field had another type once, more than nine decimals, a
number beyond 64 bits) is null there, and kept in `_misfits`, a JSON object: nothing is lost, and
nothing rounded. Of a date with a time in a column of dates the day stays there, and all of it is in
`_misfits`. decimal(38, 9) is what BigQuery calls NUMERIC.
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
from scraper.views.rows import LAST_COLUMNS, Table

MISFITS = "_misfits"
# A row group ends with whichever of these is reached first.
ROWS, CHARS = 10_000, 32_000_000
SCALE, DIGITS = 9, 38
INT_MAX = 2**63
TIME_CODES = ("%H", "%I", "%M", "%S", "%X", "%c", "%f")


class Misfit(Exception):
    """A value is not of its column's type. `instead` stands in the column."""

    def __init__(self, instead: Any = None) -> None:
        super().__init__()
        self.instead = instead


class ColumnType(NamedTuple):
    """A column's type, made once pyarrow is there, and what makes a value of it. `Misfit` where it
    is none."""

    arrow: Callable[[Any], Any]
    value: Callable[[Any], Any]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value)


def _int(value: Any) -> int:
    if not _is_number(value) or value % 1 != 0 or not -INT_MAX <= value < INT_MAX:
        raise Misfit
    return int(value)


def _decimal(value: Any) -> Decimal:
    if not _is_number(value):
        raise Misfit
    number = Decimal(value)
    if number.adjusted() >= DIGITS - SCALE:
        raise Misfit
    _, digits, exponent = number.as_tuple()
    if isinstance(exponent, str) or any(
        digits[len(digits) + exponent + SCALE :] if exponent < -SCALE else ()
    ):
        raise Misfit
    return Decimal(format(number, f".{SCALE}f")) if exponent < -SCALE else number


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Misfit
    return value


def _date(value: Any) -> date:
    at = _moment(value)
    if len(value) > len("2025-11-21"):
        raise Misfit(at.date())
    return at.date()


def _naive(value: Any) -> datetime:
    at = _moment(value)
    if at.tzinfo is not None:
        raise Misfit
    return at


def _aware(value: Any) -> datetime:
    at = _moment(value)
    if at.tzinfo is None:
        raise Misfit
    return at.astimezone(UTC)


def _moment(value: Any) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise Misfit from None


TEXT = ColumnType(lambda pa: pa.string(), _text)
UTC_TIME = ColumnType(lambda pa: pa.timestamp("us", tz="UTC"), _aware)
NAIVE_TIME = ColumnType(lambda pa: pa.timestamp("us"), _naive)
COLUMN_TYPES = {
    "int": ColumnType(lambda pa: pa.int64(), _int),
    "decimal": ColumnType(lambda pa: pa.decimal128(DIGITS, SCALE), _decimal),
    "price": ColumnType(lambda pa: pa.decimal128(DIGITS, SCALE), _decimal),
    "bool": ColumnType(lambda pa: pa.bool_(), _bool),
    "date": ColumnType(lambda pa: pa.date32(), _date),
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
    named = {name: column_type(spec) for name, spec in fields.items()}
    times = dict.fromkeys(LAST_COLUMNS, UTC_TIME)
    return {name: named.get(name) or times.get(name) or TEXT for name in columns}


def require() -> Any:
    """pyarrow, which is an extra: imported when a Parquet file is asked for."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ConfigError(
            "--format parquet needs an extra that is not installed "
            "(fix: pip install 'celery-scraper[parquet]')"
        ) from None
    return pyarrow


def write_parquet(
    table: Table, file: IO[bytes], definition: Site, metadata: Mapping[str, Any]
) -> int:
    """Writes the rows as they come; `metadata` is kept in the file's metadata, as JSON under
    `scraper`. Returns their number."""
    pa = require()
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
            chars += _add(group, columns, row)
            rows += 1
            if rows >= ROWS or chars >= CHARS:
                _flush(pa, writer, schema, group)
                count, rows, chars = count + rows, 0, 0
        if rows:
            _flush(pa, writer, schema, group)
    return count + rows


def _add(
    group: dict[str, list[Any]], columns: Mapping[str, ColumnType], row: Mapping[str, Any]
) -> int:
    """Adds a row to its group. Returns about how many characters it holds."""
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
                value = misfit.instead
        group[name].append(value)
    group[MISFITS].append(dumps(misfits) if misfits else None)
    return chars


def _flush(pa: Any, writer: Any, schema: Any, group: dict[str, list[Any]]) -> None:
    arrays = [pa.array(group[field.name], type=field.type) for field in schema]
    writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=ROWS)
    for values in group.values():
        values.clear()


class ParquetForm:
    """The `ExportForm` of `scraper export --format parquet`."""

    def require(self) -> None:
        require()

    def write(
        self, table: Table, file: IO[bytes], definition: Site, metadata: dict[str, Any]
    ) -> int:
        return write_parquet(table, file, definition, metadata)


FORM = ParquetForm()
