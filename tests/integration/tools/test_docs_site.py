"""The documentation's site: it builds without a dead link, and shows nothing from another host."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
# What a browser fetches by itself: not the target of <a>.
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|object|embed|input)\b[^>]*?\b(?:src|data)=\"?([^\"\s>]+)"
    r"|<link\b[^>]*?\bhref=\"?([^\"\s>]+)"
    r"|url\(\s*['\"]?([^'\")]+)"
    r"|@import\s+['\"]([^'\"]+)"
)
ELSEWHERE = re.compile(r"(?:https?:)?//")


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site of the documentation in `folder`, as `make docs` does."""
    (folder / "zensical.toml").write_bytes((ROOT / "zensical.toml").read_bytes())
    return subprocess.run(
        [Path(sys.prefix) / "bin" / "zensical", "build", "--strict"],
        cwd=folder, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs")
    built = build(folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "build" / "docs"


def fetched(text: str) -> list[str]:
    return [next(filter(None, groups)) for groups in FETCHED.findall(text)]


def test_every_page_is_built_with_a_search(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").exists(), page
    assert "scraper" in (site / "search.json").read_text()
    for address in re.findall(r"\]\(([^)]+)\)", (site / "llms.txt").read_text()):
        assert (site / address).exists(), address


def test_no_page_fetches_anything_from_another_host(site: Path) -> None:
    pages = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert len(pages) > 10
    for page in pages:
        addresses = fetched(page.read_text())
        assert addresses or page.suffix == ".css"
        assert [one for one in addresses if ELSEWHERE.match(one)] == [], page.name


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/a.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/a.css">',
        '<img alt="x" src=http://a.example/x.png>',
        "a { background: url('https://a.example/x.png') }",
        '@import "https://a.example/x.css";',
    ],
)
def test_what_would_be_fetched_is_noticed(html: str) -> None:
    assert [one for one in fetched(html) if ELSEWHERE.match(one)]


@pytest.mark.parametrize("link", ["no-such-page.md", "index.md#no-such-heading"])
def test_a_dead_link_ends_the_build(tmp_path: Path, link: str) -> None:
    (tmp_path / "docs").mkdir()
    for page in (ROOT / "docs").rglob("*.md"):
        copy = tmp_path / "docs" / page.relative_to(ROOT / "docs")
        copy.parent.mkdir(exist_ok=True)
        copy.write_text("# A page\n")
    (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n[dead]({link})\n")
    assert build(tmp_path).returncode != 0
