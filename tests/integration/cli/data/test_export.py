"""Exports to files and to S3: what is written is what PostgreSQL has, with its types, and from one
moment."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from scraper.cli.data import export as exporting
from scraper.cli.main import main
from scraper.errors import BusyError, ConfigError, CursorError, ObjectsError, ScraperError
from scraper.feed import consumers, reader
from scraper.plugins.changes import command as changes
from scraper.plugins.parquet import writer as parquet
from scraper.plugins.s3 import bucket as bucket_module
from scraper.views import rows as table_rows
from scraper.views.rows import LAST_COLUMNS
from tests.support.hidden_module import hide_module
from tests.support.machine import everyday
from tests.support.making import a_site, rows
from tests.support.shops.crawled_shop import A, B, Shop

FIELDS: dict[str, Any] = {
    "title": "h1",
    "price": {"css": "b", "type": "price"},
    "stock": {"css": "i", "type": "int"},
    "sold": {"css": "i", "type": "bool"},
    "since": {"css": "i", "type": "date"},
    "at": {"css": "i", "type": "date", "format": "%Y-%m-%d %H:%M"},
    "seen": {"css": "i", "type": "date", "format": "%Y-%m-%dT%H:%M%z"},
    "image": {"css": "i", "type": "url"},
    "tags": {"css": "i", "type": "list"},
    "sizes": {"css": "i", "type": "int", "many": True},
}
GOOD: dict[str, object] = {
    "title": "A ☃", "price": Decimal("12345678901234567890.120"), "price_currency": "EUR", "stock": 3, "sold": False,
    "since": "2025-11-21", "at": "2025-11-21T10:30:00", "seen": "2025-11-21T10:30:00+02:00",
    "image": "https://shop.example/a.png", "tags": ["a", "b"], "sizes": [38, 40],
}  # fmt: skip
ODD: dict[str, object] = {
    "title": 7, "price": "12 EUR", "stock": Decimal(2**70), "sold": "yes", "since": "2025-11-21T10:00:00", "at": "soon",
    "seen": "2025-11-21T10:30:00", "tags": "a", "sizes": [1, "XL"], "old": {"a": [1]}, "older": "text",
}  # fmt: skip


@pytest.fixture
def shop(engine: sa.Engine) -> Shop:
    shop = Shop(engine)
    shop.site = a_site(product={"fields": FIELDS}, revisit="0s")
    pages = shop.begin(A, B)
    shop.give(pages[A], "good", **GOOD)
    shop.give(pages[B], "odd", **ODD)
    shop.end()
    return shop


def exported(
    engine: sa.Engine, path: Path, form: exporting.Form = "parquet", **more: Any
) -> exporting.Exported:
    return exporting.write_export(engine, "shop", form, str(path), **{"delisted": False, **more})


def test_a_field_named_like_a_column_has_one_of_its_own(engine: sa.Engine, tmp_path: Path) -> None:
    shop = Shop(engine)
    fields = {"title": "h1", "url": {"css": "i", "type": "int"}, "changed_at": "b"}
    shop.site = a_site(product={"fields": fields}, revisit="0s")
    shop.give(shop.begin(A)[A], "a", title="a", url=7, changed_at="soon")
    shop.end()
    exported(engine, tmp_path / "a.parquet")
    exported(engine, tmp_path / "a.xlsx", "xlsx")
    (row,) = pq.read_table(tmp_path / "a.parquet").to_pylist()
    assert (row["_url"], row["_changed_at"], row["_misfits"]) == (7, "soon", None)
    stored = rows(engine, "SELECT url, changed_at FROM products")
    assert stored == [(row["url"], row["changed_at"])]


def test_types_follow_from_the_definition(engine: sa.Engine, shop: Shop, tmp_path: Path) -> None:
    done = exported(engine, tmp_path / "shop.parquet")
    table = pq.read_table(tmp_path / "shop.parquet")
    assert {field.name: str(field.type) for field in table.schema} == {
        "id": "string", "url": "string", "title": "string", "price": "decimal128(38, 9)", "price_currency": "string",
        "stock": "int64", "sold": "bool", "since": "date32[day]", "at": "timestamp[us]",
        "seen": "timestamp[us, tz=UTC]", "image": "string", "tags": "list<element: string>",
        "sizes": "list<element: int64>", "old": "string", "older": "string",
        **dict.fromkeys(LAST_COLUMNS, "timestamp[us, tz=UTC]"), "_misfits": "string",
    }  # fmt: skip
    good, odd = table.to_pylist()
    expected = {
        **GOOD, "price": Decimal("12345678901234567890.120000000"), "since": date(2025, 11, 21),
        "at": datetime(2025, 11, 21, 10, 30), "seen": datetime(2025, 11, 21, 8, 30, tzinfo=UTC), "_misfits": None,
    }  # fmt: skip
    assert {name: good[name] for name in expected} == expected
    assert (
        good["first_seen_at"]
        == rows(engine, "SELECT first_seen_at FROM products WHERE external_id = 'good'")[0][0]
    )
    assert (odd["title"], odd["old"], odd["older"], odd["since"]) == (
        "7",
        '{"a":[1]}',
        "text",
        date(2025, 11, 21),
    )
    assert [odd[name] for name in ("price", "stock", "sold", "at", "seen", "tags", "sizes")] == [
        None
    ] * 7
    kept = ("price", "stock", "sold", "since", "at", "seen", "tags", "sizes")
    assert json.loads(odd["_misfits"]) == {name: ODD[name] for name in kept}, "nothing is lost"
    about = json.loads(table.schema.metadata[b"scraper"])
    assert (about["site"], about["cursor"], about["since"]) == ("shop", done.cursor, None)
    assert (
        pq.ParquetFile(tmp_path / "shop.parquet").metadata.row_group(0).column(0).compression
        == "ZSTD"
    )


@pytest.mark.parametrize(
    ("value", "fits"),
    [("1.123456789", True), ("1.1234567890", True), ("1.1234567891", False), ("9" * 29, True), ("9" * 30, False),
     ("0.000000000", True), ("-0.000000001", True), ("0.0000000001", False), ("1E+5", True), ("1E+40", False),
     ("0.0000000000120", False), ("-0.0000000000120", False)],
)  # fmt: skip
def test_decimals_are_exact_or_misfits(value: str, fits: bool) -> None:
    number = Decimal(value)
    if fits:
        found = parquet._to_decimal(number)
        assert pa.array([found], parquet.COLUMN_TYPES["decimal"].arrow(pa)).to_pylist() == [number]
    else:
        with pytest.raises(parquet.Misfit):
            parquet._to_decimal(number)


@pytest.mark.parametrize("time", ["9999-12-31T23:30:00-05:00", "0001-01-01T00:30:00+05:00"])
def test_a_time_outside_the_calendar_is_a_misfit(time: str) -> None:
    with pytest.raises(parquet.Misfit):
        parquet._to_utc_time(time)


def test_parquet_equals_postgresql_over_many_row_groups(
    engine: sa.Engine, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(engine, 2345)
    monkeypatch.setattr(parquet, "ROWS", 500)
    done = exported(engine, tmp_path / "shop.parquet")
    file = pq.ParquetFile(tmp_path / "shop.parquet")
    assert file.metadata.num_row_groups == 5 and done.products == file.metadata.num_rows == 2347
    found = [(row["id"], row["title"], row["price"]) for row in file.read().to_pylist()]
    query = """SELECT external_id, data ->> 'title', CASE WHEN jsonb_typeof(data -> 'price') = 'number'
                 THEN CAST(data ->> 'price' AS numeric) END FROM products ORDER BY external_id COLLATE "C" """
    assert found == [tuple(row) for row in rows(engine, query)]


def many(engine: sa.Engine, count: int) -> None:
    query = sa.text("""
        INSERT INTO products (site_id, external_id, page_id, crawl_id, url, data, content_hash)
        SELECT site_id, 'n' || n, page_id, crawl_id, url || n,
               jsonb_build_object('title', 'no. ' || n, 'price', n / 100.0, 'stock', n, 'tags', jsonb_build_array(n || 'x')),
               gen_random_uuid()
          FROM products, generate_series(1, :count) AS n WHERE external_id = 'good'""")
    with engine.begin() as connection:
        connection.execute(query, {"count": count})


def test_an_empty_catalogue_has_all_columns(engine: sa.Engine, shop: Shop, tmp_path: Path) -> None:
    done = exported(engine, tmp_path / "none.parquet", since="now")
    table = pq.read_table(tmp_path / "none.parquet")
    assert done.products == table.num_rows == 0 and {"price", "sizes", "_misfits"} <= set(
        table.column_names
    )


def test_without_its_extra(
    engine: sa.Engine, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_module(monkeypatch, "pyarrow")
    with pytest.raises(ConfigError, match=r"pip install 'celery-scraper\[parquet\]'"):
        exported(engine, tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_parquet_wants_a_file(engine: sa.Engine, shop: Shop) -> None:
    with pytest.raises(ConfigError, match="--output"):
        exporting.write_export(engine, "shop", "parquet", None, delisted=False)


def test_a_byte_order_mark_is_for_csv_alone(engine: sa.Engine, shop: Shop, tmp_path: Path) -> None:
    for form in ("csv", "jsonl"):
        plain, marked = (tmp_path / f"{name}.{form}" for name in ("plain", "marked"))
        exported(engine, plain, form)
        exported(engine, marked, form, bom=True)
        mark = b"\xef\xbb\xbf" if form == "csv" else b""
        assert marked.read_bytes() == mark + plain.read_bytes()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_to_s3(
    engine: sa.Engine, shop: Shop, bucket: str, tmp_path: Path, form: exporting.Form
) -> None:
    local = tmp_path / "here"
    exported(engine, local, form)
    done = exporting.write_export(
        engine, "shop", form, f"{bucket}/daily/shop.{form}", delisted=False
    )
    body = (
        boto3.client("s3")
        .get_object(Bucket=bucket.removeprefix("s3://"), Key=f"daily/shop.{form}")["Body"]
        .read()
    )
    assert done.products == 2
    if form == "parquet":
        assert pq.read_table(io.BytesIO(body)).equals(pq.read_table(local))
    else:
        assert body == local.read_bytes()


def test_to_s3_in_parts(
    engine: sa.Engine, shop: Shop, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(engine, 30_000)
    monkeypatch.setattr(bucket_module, "SINGLE_PUT_MAX", 1_000_000)
    exporting.write_export(engine, "shop", "jsonl", f"{bucket}/shop.jsonl", delisted=False)
    found = boto3.client("s3").get_object(Bucket=bucket.removeprefix("s3://"), Key="shop.jsonl")
    assert "-" in found["ETag"], "an upload in parts"
    assert len(found["Body"].read().splitlines()) == 30_002


def test_what_cannot_be_written_leaves_nothing(
    engine: sa.Engine, shop: Shop, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tmp_path / "shop.csv"
    before.write_text("yesterday's")

    def broken(*_: object, **__: object) -> int:
        raise ScraperError("no more")

    with pytest.raises(ObjectsError, match="NoSuchBucket"):
        exporting.write_export(engine, "shop", "csv", f"{bucket}-other/shop.csv", delisted=False)
    with pytest.raises(ScraperError, match="cannot write"):
        exported(engine, tmp_path / "no-such-folder" / "a.csv", "csv")
    monkeypatch.setattr(table_rows, "write_csv", broken)
    for where in (str(before), f"{bucket}/shop.csv"):
        with pytest.raises(ScraperError, match="no more"):
            exporting.write_export(engine, "shop", "csv", where, delisted=False)
    assert before.read_text() == "yesterday's" and list(tmp_path.iterdir()) == [before]
    assert "Contents" not in boto3.client("s3").list_objects_v2(Bucket=bucket.removeprefix("s3://"))


def lines(path: Path) -> dict[str, Any]:
    return {row["id"]: row for row in map(json.loads, path.read_text().splitlines())}


def test_since_a_cursor_what_has_changed_the_delisted_too(
    engine: sa.Engine, shop: Shop, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = exported(engine, out, "jsonl")
    for _ in range(2):
        shop.once("good", A, **{**GOOD, "price": Decimal("8.50")})
    second = exported(engine, out, "jsonl", since=first.cursor)
    found = lines(out)
    assert found.keys() == {"good", "odd"} and second.since == first.cursor
    assert found["good"]["price"] == 8.5 and found["odd"]["delisted_at"] is not None
    assert exported(engine, out, "jsonl", since=second.cursor).products == 0
    with pytest.raises(CursorError, match="ahead"):
        exported(engine, out, "jsonl", since=10_000)


def test_a_consumer_goes_on_where_its_export_ends(
    engine: sa.Engine, shop: Shop, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    one = exported(engine, out, "jsonl", since="last", consumer="lake")
    assert (one.since, one.products) == (None, 2), "the first time all of it"
    shop.once("good", A, **{**GOOD, "stock": 4})
    two = exported(engine, out, "jsonl", since="last", consumer="lake")
    assert (two.since, two.products, list(lines(out))) == (one.cursor, 1, ["good"])
    with engine.connect() as connection:
        assert consumers.read_position(connection, "lake", "shop") == two.cursor
    with (
        consumers.hold_consumer(engine, "lake", "shop"),
        pytest.raises(BusyError, match="another process reads as consumer"),
    ):
        exported(engine, out, "jsonl", consumer="lake")
    with pytest.raises(ConfigError, match="--consumer"):
        exported(engine, out, "jsonl", since="last")


@pytest.mark.parametrize("form", everyday(["jsonl", "csv", "xlsx"], "jsonl"))
def test_a_consumer_of_all_sites_goes_on_where_its_export_ends(
    engine: sa.Engine, shop: Shop, tmp_path: Path, form: exporting.Form
) -> None:
    """Its position is apart from those that the same name has for a site."""
    other = Shop(engine)
    other.site = a_site("other", revisit="0s")
    other.once("7", title="a")

    def everything(**more: Any) -> exporting.Exported:
        place = str(tmp_path / f"out.{form}")
        return exporting.write_export(
            engine, None, form, place, delisted=False, since="last", consumer="lake", **more
        )

    one = everything()
    assert (one.since, one.products) == (None, 3), "the first time all of them"
    assert everything().products == 0
    other.once("7", title="b")
    shop.once("good", A, **{**GOOD, "stock": 4})
    two = everything()
    assert (two.since, two.products) == (one.cursor, 2)
    with engine.connect() as connection:
        assert consumers.read_position(connection, "lake", None) == two.cursor
        assert consumers.read_position(connection, "lake", "shop") is None
    with (
        consumers.hold_consumer(engine, "lake", None),
        pytest.raises(BusyError, match="another process reads as consumer"),
    ):
        everything()
    assert exported(engine, tmp_path / "out", "jsonl", since="last", consumer="lake").products == 2


def test_a_consumer_of_all_sites_keeps_its_place_if_the_export_fails(
    engine: sa.Engine, shop: Shop, tmp_path: Path
) -> None:
    missing = str(tmp_path / "no" / "folder" / "out.jsonl")
    for form, place, why in (
        ("jsonl", missing, "cannot write"),
        ("parquet", str(tmp_path / "out.parquet"), "columns of one site"),
    ):
        with pytest.raises(ScraperError, match=why):
            exporting.write_export(engine, None, form, place, delisted=False, consumer="lake")
    with engine.connect() as connection:
        assert consumers.read_position(connection, "lake", None) is None


@pytest.mark.usefixtures("environment")
def test_the_command_exports_all_sites_for_a_consumer_and_says_how_to_go_on(
    engine: sa.Engine, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a process that ends lets its connections go; this one does not end
    for module in (exporting, changes):
        monkeypatch.setattr(module, "open_engine", lambda: engine)
    words = ["export", "--all", "--consumer", "lake", "--since", "last", "--json", "-o"]
    words.append(str(tmp_path / "all.jsonl"))
    shown = [json.loads(CliRunner().invoke(main, words).stdout) for _ in range(2)]
    assert [(row["site"], row["products"]) for row in shown] == [(None, 2), (None, 0)]
    assert shown[1]["since"] == shown[0]["cursor"]
    words = ["changes", "--consumer", "lake"]
    shop.once("good", A, **{**GOOD, "stock": 5})
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0 and "good" in result.stdout, result.output


def test_an_export_and_what_follows_its_cursor_are_the_truth(
    engine: sa.Engine, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product that changes while the export is being written is in the feed after its cursor, and
    not in the file."""
    write = table_rows.write_jsonl

    def slowly(*given: Any, **more: Any) -> int:
        shop.once("good", A, **{**GOOD, "stock": 99})
        return write(*given, **more)

    monkeypatch.setattr(table_rows, "write_jsonl", slowly)
    done = exported(engine, tmp_path / "out", "jsonl")
    assert lines(tmp_path / "out")["good"]["stock"] == 3
    (change,) = reader.read(engine, done.cursor or 0)
    assert (change.id, change.changed, change.data["stock"]) == ("good", ("stock",), 99)


def test_only_one_advances_a_consumer(engine: sa.Engine, shop: Shop) -> None:
    with engine.begin() as connection:
        consumers.set_position(connection, "one", None, 1)
        consumers.advance_position(connection, "one", None, 1, 2)
    with (
        pytest.raises(BusyError, match="advanced, set back or forgot"),
        engine.begin() as connection,
    ):
        consumers.advance_position(connection, "one", None, 1, 3)
