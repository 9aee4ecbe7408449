"""The same things asked of a folder and of a bucket."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest

from scraper.cli.data.export import form_of
from scraper.cli.data.output import open_destination
from scraper.errors import ConfigError, ObjectsError, ScraperError
from scraper.infra import objects
from scraper.infra.objects import Objects, open_place, split_object_name
from scraper.plugins.s3 import bucket as bucket_module


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "folder":
        return open_place(str(tmp_path / "kept"), "PLACE")
    return open_place(request.getfixturevalue("bucket") + "/some/prefix", "PLACE")


@pytest.fixture
def given(tmp_path: Path) -> Path:
    path = tmp_path / "given"
    path.write_bytes(b"0123456789")
    return path


def test_what_is_put_is_read_whole_and_in_parts(store: Objects, given: Path) -> None:
    store.put("a/b.bin", given)
    assert store.read("a/b.bin") == b"0123456789"
    assert store.read("a/b.bin", 3, 4) == b"3456"
    assert store.read("a/b.bin", 8, 100) == b"89"
    assert store.read("a/b.bin", 6) == b"6789"
    given.write_bytes(b"new")
    store.put("a/b.bin", given)
    assert store.read("a/b.bin") == b"new"


def test_a_listing_has_keys_sizes_and_times_in_order(store: Objects, given: Path) -> None:
    for key in ("x/2", "x/1", "y/1", "x/10/3"):
        store.put(key, given)
    found = list(store.listed())
    assert [each.key for each in found] == ["x/1", "x/10/3", "x/2", "y/1"]
    assert {each.size for each in found} == {10}
    assert all(abs(datetime.now(UTC) - each.modified_at) < timedelta(hours=1) for each in found)
    assert [each.key for each in store.listed("x/1")] == ["x/1", "x/10/3"]
    assert list(store.listed("none/")) == []


def test_what_is_deleted_is_gone_and_deleting_it_again_is_not_an_error(
    store: Objects, given: Path
) -> None:
    for key in ("a/1", "a/2", "b/1"):
        store.put(key, given)
    store.delete(["a/1", "b/1", "never/was"])
    store.delete(["a/1"])
    assert [each.key for each in store.listed()] == ["a/2"]
    with pytest.raises(ObjectsError, match=r"cannot read a/1 in ") as error:
        store.read("a/1")
    assert error.value.missing


def test_a_place_that_is_not_there_is_named(bucket: str, given: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ObjectsError, match=r"cannot write k in .*/file/below: Not a directory"
    ) as error:
        open_place(str(tmp_path / "file" / "below"), "PLACE").put("k", given)
    assert not error.value.missing
    with pytest.raises(
        ObjectsError, match="cannot write k in s3://no-such-bucket-here: NoSuchBucket"
    ) as error:
        open_place("s3://no-such-bucket-here", "PLACE").put("k", given)
    assert not error.value.missing


def test_without_credentials_and_without_a_server_the_error_says_so(
    bucket: str, given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_module, "TRIES", 1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(
        ObjectsError, match=r"cannot write k in s3://t-\w+: Could not connect"
    ) as error:
        open_place(bucket, "PLACE").put("k", given)
    assert "secret" not in str(error.value) and "AKIATESTS" not in str(error.value)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ObjectsError, match="Unable to locate credentials"):
        open_place(bucket, "PLACE").put("k", given)


def test_what_is_large_goes_up_in_parts(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_module, "SINGLE_PUT_MAX", 5_000_000)
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 40_000)
    store = open_place(bucket, "PLACE")
    store.put("large", large)
    assert store.read("large", 10_000_000, 4) == bytes(
        range(10_000_000 % 256, 10_000_000 % 256 + 4)
    )
    found = boto3.client("s3").head_object(Bucket=bucket.removeprefix("s3://"), Key="large")
    # two parts
    assert found["ContentLength"] == 10_240_000 and found["ETag"].rstrip('"').endswith("-2")


def test_a_folder_is_for_its_owner_alone_and_has_no_halves(tmp_path: Path, given: Path) -> None:
    store = open_place(str(tmp_path / "kept"), "PLACE")
    store.put("a/b", given)
    assert stat.S_IMODE((tmp_path / "kept" / "a" / "b").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "kept" / "a").stat().st_mode) == 0o700
    with pytest.raises(ObjectsError, match="cannot write a/c"):
        store.put("a/c", tmp_path / "not there")
    assert [path.name for path in (tmp_path / "kept" / "a").iterdir()] == ["b"]
    (tmp_path / "kept" / "a" / f"{objects.PART}left").touch()
    assert [each.key for each in store.listed()] == ["a/b"]


def test_folders_that_are_emptied_then_do_not_fail_what_is_put(tmp_path: Path, given: Path) -> None:
    store = open_place(str(tmp_path / "kept"), "PLACE")

    def come_and_go(number: int) -> None:
        for turn in range(50):
            store.put(f"day/{number}-{turn}", given)
            store.delete([f"day/{number}-{turn}"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(come_and_go, range(4)))
    assert list(store.listed()) == [] and not (tmp_path / "kept" / "day").exists()


@pytest.mark.parametrize(
    "key", ["", "/etc/passwd", "a/../../b", "..", "a//b", "a\\b", "a\nb", "a\x00", "x" * 1000]
)
def test_no_key_leads_out_of_its_place(store: Objects, given: Path, key: str) -> None:
    for step in (
        lambda: store.put(key, given),
        lambda: store.read(key),
        lambda: store.delete([key]),
    ):
        with pytest.raises(ValueError, match="not a key"):
            step()


@pytest.mark.parametrize(
    "where",
    [
        "",
        "  ",
        "gs://bucket",
        "s3://",
        "s3:///key",
        "s3://user:pass@bucket",
        "s3://bucket/../other",
        "s3://bucket/a/../../other/b",
        "file://host/x",
        "file:///",
    ],
)
def test_what_is_not_a_place_is_refused_without_showing_it(where: str) -> None:
    with pytest.raises(ConfigError, match="^PLACE: ") as error:
        open_place(where, "PLACE")
    assert "pass" not in str(error.value)


def test_a_place_of_one_file(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch, given: Path
) -> None:
    store, key = split_object_name(f"{bucket}/feeds/new/today.parquet", "PLACE")
    store.put(key, given)
    assert (store.where, key) == (f"{bucket}/feeds/new", "today.parquet")
    assert open_place(bucket, "PLACE").read("feeds/new/today.parquet") == b"0123456789"
    assert split_object_name("/today.csv", "PLACE")[0].where == "/"
    monkeypatch.chdir(tmp_path)
    store, key = split_object_name("today.csv", "PLACE")
    assert (store.where, key) == (str(tmp_path), "today.csv")
    assert split_object_name("file:///srv/x/today.csv", "PLACE")[0].where == "/srv/x"
    for wrong in ("s3://bucket/", "s3://bucket", "folder/"):
        with pytest.raises(ConfigError, match="PLACE: no name of a file"):
            split_object_name(wrong, "PLACE")


@pytest.mark.parametrize(
    "where",
    [
        "s3://AKIA:s3cr3t@bucket/today.txt",
        "s3://AKIA:s3cr3t@bucket",
        "s3://AKIA:s3cr3t@bucket/",
        "s3://AKIA:s3cr3t@bucket/today\x07.csv",
        "s3://bucket/today.csv?X-Amz-Signature=s3cr3t",
        "s3://bucket/today?X-Amz-Signature=s3cr3t&to=.csv",
        "s3://AKIA:s3cr3t@[/today.csv",
        "s3://AKIA:top/s3cr3t@bucket/today.csv",
        "s3://AKIA:top/s3cr3t@bucket/today.txt",
        "https://ann:s3cr3t@shop.example/\0.csv",
    ],
)
def test_credentials_in_the_name_of_an_output_are_not_shown(where: str) -> None:
    def write() -> None:
        form_of(where)
        with open_destination(where):
            pass

    with pytest.raises(ConfigError) as error:
        write()
    assert "s3cr3t" not in str(error.value)


def test_credentials_in_the_name_of_a_file_are_not_shown() -> None:
    with (
        pytest.raises(ScraperError, match=r"cannot write https://\*\*\*@shop.example") as error,
        open_destination("https://ann:s3cr3t@shop.example/today.csv?token=s3cr3t"),
    ):
        pass
    assert "s3cr3t" not in str(error.value)


def test_no_key_of_an_output_leads_into_another_bucket() -> None:
    with pytest.raises(ConfigError, match="without credentials and `..`"):
        split_object_name("s3://bucket/../other/today.csv", "PLACE")
