"""The package as a user has it: the wheel, in an environment and a folder outside the checkout."""

from __future__ import annotations

import json
import os
import re
import site
import stat
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.servers.ports import unused_port
from tests.support.waiting import GENEROUS_S, until

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def python(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has the wheel, and next to it what it depends on: the
    libraries of the tests' own environment, without the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    (wheel,) = dist.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index"]
    subprocess.run([*pip, "--no-deps", str(wheel)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return python


class Installed:
    """Runs commands in a folder, with nothing of the tests' environment."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder = python, folder
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}

    def command(self, *words: str) -> list[str]:
        program, *rest = words
        if program == "scraper":
            return [str(self.python.with_name("scraper")), *rest]
        return [str(self.python), "-m", *words]

    def run(self, *words: str, exit_code: int = 0) -> str:
        done = subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=GENEROUS_S,
        )
        assert done.returncode == exit_code, done.stdout + done.stderr
        return done.stdout + done.stderr

    @contextmanager
    def start(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        log = self.folder / f"{words[3]}.log"
        with (
            log.open("wb") as output,
            subprocess.Popen(
                self.command(*words),
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=output,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()
                process.wait(GENEROUS_S)


@pytest.fixture(scope="module")
def project(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    installed = Installed(python, tmp_path_factory.mktemp("p"))
    assert "scraper.toml written" in installed.run("scraper", "init")
    installed.run("scraper", "up")
    yield installed
    installed.run("scraper", "down")


def test_both_distributions_hold_what_runs_and_the_licence(dist: Path) -> None:
    (wheel,) = dist.glob("celery_scraper-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    migrations = {
        f"scraper/shipped/{path.relative_to(ROOT)}" for path in ROOT.glob("alembic/versions/*.py")
    }
    assert migrations and migrations <= names
    for name in (
        "py.typed",
        "shipped/flowerconfig.py",
        "shipped/sites/schema.json",
        "plugins/demo/shop.yaml",
    ):
        assert f"scraper/{name}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]
    (source,) = dist.glob("celery_scraper-*.tar.gz")
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "LICENSE",
        "pyproject.toml",
        "alembic/env.py",
        "flowerconfig.py",
        "sites/books.yaml",
    } <= held


def test_the_program_is_the_installed_one(project: Installed) -> None:
    code = "import scraper, scraper.infra.shipped as s; print(scraper.__file__, s.path('alembic'))"
    done = subprocess.run(
        [str(project.python), "-c", code], cwd=project.folder, env=project.environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(ROOT) not in done.stdout
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version is not None
    assert project.run("scraper", "--version").strip().endswith(version[1])
    assert project.run("scraper", "--help") == project.run("scraper", "-h")


def test_outside_a_project_nothing_is_made(python: Path, tmp_path: Path) -> None:
    elsewhere = Installed(python, tmp_path)
    for words in (("up",), ("status",), ("crawl", "books")):
        assert "scraper init" in elsewhere.run("scraper", *words, exit_code=2)
    assert list(tmp_path.iterdir()) == []


def test_init_leaves_what_is_there(project: Installed) -> None:
    file = project.folder / "scraper.toml"
    before = file.read_text()
    assert "nothing was written" in project.run("scraper", "init")
    assert file.read_text() == before


def test_settings_say_where_they_come_from_and_hide_secrets(project: Installed) -> None:
    file = project.folder / "scraper.toml"
    before = file.read_text()
    file.write_text('attempts_max = 3\nlease_s = 30\nredis_url = "redis://:s3cret@h/0"\n')
    project.environment["SCRAPER_LEASE_S"] = "20"
    try:
        printed = project.run("scraper", "settings", "--json")
    finally:
        file.write_text(before)
        del project.environment["SCRAPER_LEASE_S"]
    rows = {row["name"]: row for row in json.loads(printed)}
    assert (rows["attempts_max"]["value"], rows["attempts_max"]["from"]) == (3, "scraper.toml")
    assert (rows["lease_s"]["value"], rows["lease_s"]["from"]) == (20, "SCRAPER_LEASE_S")
    assert rows["batch_pages"]["from"] == "default"
    assert "s3cret" not in printed and rows["redis_url"]["value"] == "redis://***@h/0"


def test_a_setting_that_is_none_is_named_with_the_nearest(python: Path, tmp_path: Path) -> None:
    (tmp_path / "scraper.toml").write_text("atempts_max = 3\n")
    says = Installed(python, tmp_path).run("scraper", "status", exit_code=2)
    assert "scraper.toml: atempts_max is not a setting (did you mean attempts_max?)" in says


def test_a_whole_crawl(project: Installed) -> None:
    said = project.run("scraper", "demo", "--products", "60")
    assert "60" in said
    example = project.folder / "sites" / "_example.yaml"
    assert project.run("scraper", "sites", "list") == ""
    example.rename(example.with_name("example.yaml"))
    assert "example" in project.run("scraper", "sites", "list")
    assert "no errors" in project.run("scraper", "sites", "check")


def test_a_worker_starts_for_a_queue(project: Installed) -> None:
    with project.start("celery", "-A", "scraper", "worker", "-Q", "residential") as worker:
        log = project.folder / "worker.log"
        wait_for(lambda: b"ready" in log.read_bytes(), worker)


@pytest.mark.parametrize("options", ["none", "own", "given"])
def test_flower_is_behind_a_login_and_on_loopback(project: Installed, options: str) -> None:
    """Even where a folder's own configuration, or one that is named, does not name it, or empties
    what was said."""
    own = project.folder / ("flowerconfig.py" if options == "own" else "other.py")
    own.write_text("basic_auth = []\naddress = ''\nmax_tasks = 7\n")
    given = [f"--conf={own}"] if options == "given" else []
    try:
        _check_flower(project, given)
    finally:
        own.unlink()


def _check_flower(project: Installed, given: list[str]) -> None:
    port = unused_port()
    with project.start("celery", "-A", "scraper", "flower", f"--port={port}", *given) as flower:
        wait_for(lambda: listens(flower.pid), flower)
        assert listens(flower.pid) == {("127.0.0.1", port)}
        ours = () if given else ("/crawls", "/api/crawls")
        for path in ("/", "/api/workers", *ours):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60)
            with refused.value as answer:
                assert answer.code == 401
                assert answer.headers["X-Frame-Options"] == "DENY"
        password = project.folder / ".scraper" / "flower-password"
        assert stat.S_IMODE(password.stat().st_mode) == 0o600


def listens(pid: int) -> set[tuple[str, int]]:
    connections = psutil.Process(pid).net_connections("inet")
    return {tuple(c.laddr) for c in connections if c.status == psutil.CONN_LISTEN}  # type: ignore[misc]


def wait_for(condition: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    until(lambda: condition() or process.poll() is not None)
    assert process.poll() is None, f"it ended with {process.returncode}"
