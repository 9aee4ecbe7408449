"""Bodies are unpacked without the libraries of the extra `speed`, and br and zstd not asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.without_speed import environment_without_speed

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
ASK = """
import pytest, redis.utils
from scraper.errors import FetchError
from scraper.http import body, codings
from scraper.rules import browsers

assert not redis.utils.HIREDIS_AVAILABLE
assert codings.keep_supported(browsers.ACCEPT_ENCODING) == "gzip, deflate"
for coding in ("br", "zstd"):
    with pytest.raises(FetchError, match="unknown content-encoding"):
        body.make_unpacker(coding, 100)
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT, env=environment_without_speed(folder, ROOT), capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


def test_only_what_can_be_unpacked_is_asked_for(tmp_path: Path) -> None:
    done = run(tmp_path, "-c", ASK)
    assert done.returncode == 0, done.stderr


def test_every_test_of_gzip_and_deflate_passes(tmp_path: Path) -> None:
    tests = "tests/unit/http/test_body.py"
    chosen = ("-k", "not br and not zstd and not brotli")
    done = run(tmp_path, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", tests, *chosen)
    assert done.returncode == 0, done.stdout
