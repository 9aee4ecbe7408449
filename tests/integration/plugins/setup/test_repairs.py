"""Repairs by `scraper repair` in processes of their own."""

from __future__ import annotations

import pytest

from scraper.plugins.setup.repairs import Repairs
from scraper.settings import Settings
from tests.support.waiting import until

pytestmark = pytest.mark.slow
TEXT = """\
name: shop
start: https://shop.example/
rate: 2/s
listing: {products: .card a}
product: {fields: {title: h1}}
"""


def test_a_site_in_a_file_of_another_name_is_read_and_its_problem_is_a_sentence(
    environment: Settings,
) -> None:
    file = environment.sites_dir / "garden.yaml"
    file.write_text(TEXT)
    repairs = Repairs(60)
    repairs.start("shop", file, "ann")
    until(lambda: (repairs.find_repair("shop") or {})["state"] != "reading")
    repair = repairs.find_repair("shop")
    assert repair is not None and repair["problem"].startswith("shop: no values are known")
