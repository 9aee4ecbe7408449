"""What failed is run once more, alone, unless there is more wrong than that."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tests import again


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def failed(folder: Path, *names: str) -> None:
    last = folder / again.LAST_FAILED
    last.parent.mkdir(parents=True)
    last.write_text("{" + ", ".join(f'"{name}": true' for name in names) + "}")


@pytest.mark.parametrize(("passes", "code"), [(True, 0), (False, 1)])
def test_the_second_run_decides(folder: Path, passes: bool, code: int) -> None:
    (folder / "test_it.py").write_text(
        dedent(f"""
        def test_failed():
            assert {passes}

        def test_never_asked():
            assert False
        """)
    )
    failed(folder, "test_it.py::test_failed")
    assert again.main(again.FAILED) == code


@pytest.mark.parametrize("code", [2, 3, 5])
def test_what_is_no_failed_test_is_not_repeated(folder: Path, code: int) -> None:
    failed(folder, "test_it.py::test_gone")
    assert again.main(code) == code


def test_nor_more_than_a_few(folder: Path) -> None:
    failed(folder, *(f"test_it.py::test_{n}" for n in range(again.MOST + 1)))
    assert again.main(again.FAILED) == again.FAILED
