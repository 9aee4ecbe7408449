"""The cells of `scraper host list`."""

from __future__ import annotations

from scraper.cli.fleet.hosts import _host_cells
from scraper.views.host_states import HostState


def test_a_rate_set_by_hand_is_shown_without_open_pages() -> None:
    state = HostState("shop.example", rate_per_s=0.5, override={"rate": "30/m"})
    assert _host_cells(state)[1] == "0.5/s"
    assert _host_cells(HostState("shop.example"))[1] == ""
