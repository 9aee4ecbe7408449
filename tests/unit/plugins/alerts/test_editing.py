"""What the Crawls tab says of a text of rules before it is saved."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper import settings
from scraper.plugins.alerts.editing import check_rules
from scraper.plugins.setup import files


def test_texts_of_many_lines_are_not_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("[\n")
    monkeypatch.setenv("SCRAPER_ALERT_RULES", str(file))
    monkeypatch.setattr(files, "DIFF_LINES_MAX", 3)
    settings.load.cache_clear()
    # The texts are not YAML, so no database is asked for the rules of sites.
    engine = sa.create_engine("postgresql+psycopg://")
    shown = [check_rules(engine, {"text": "[\n" * lines}, "me") for lines in (3, 4)]
    assert [answer["diff"] for answer in shown] == [["@@ -1 +1,3 @@", " [", "+[", "+["], []]
    assert all(answer["problems"] for answer in shown)
