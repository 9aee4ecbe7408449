"""`make secrets`: random passwords, and the addresses that are made of them."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

SCRIPT = Path(__file__).parents[3] / "deploy" / "make_secrets.py"
ODD = "p@ss/w:rd #%'\"\\ü?&"


def make(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-I", SCRIPT, folder, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == code, done.stderr
    return done


def test_random_and_private(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    said = make(one).stdout
    make(two)
    assert stat.S_IMODE(one.stat().st_mode) == 0o700
    for file in one.iterdir():
        text = file.read_text()
        assert text != (two / file.name).read_text() and text not in said
        assert stat.S_IMODE(file.stat().st_mode) == 0o644, "read by containers' own users"
    assert len((one / "postgres_password").read_text()) >= 32


def test_what_is_there_stays(tmp_path: Path) -> None:
    make(tmp_path)
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert "nothing was changed" in make(tmp_path).stdout
    (tmp_path / "database_url").unlink()
    assert make(tmp_path).stdout.endswith("made database_url\n")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == before


def test_a_password_of_ones_own_is_quoted(tmp_path: Path) -> None:
    for name in ("postgres", "redis"):
        (tmp_path / f"{name}_password").write_text(ODD + "\n", encoding="utf-8")
    make(tmp_path, "--postgres", "db.example")
    for name, host in (("database_url", "db.example"), ("redis_url", "redis")):
        parts = urlsplit((tmp_path / name).read_text())
        assert parts.hostname == host and unquote(parts.password or "") == ODD


def test_what_rabbitmq_could_not_read(tmp_path: Path) -> None:
    (tmp_path / "rabbitmq_password").write_text(ODD)
    said = make(tmp_path, code=1).stderr
    assert "rabbitmq_password: letters" in said and ODD not in said and "Traceback" not in said


def test_a_folder_that_cannot_be_made() -> None:
    assert make(Path("/proc/nothing"), code=1).stderr.startswith("/proc/nothing: ")
