"""What a shop writes into a message is shown, and never obeyed."""

from __future__ import annotations

import pytest

from scraper.plugins.alerts.sending.notify import Notice, make_harmless


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<!channel> <@U123> <#C1>", "< !channel> < @U123> < #C1>"),
        ("<https://evil.example|your bank>", "< https://evil.example|your bank>"),
        ("<javascript:x>", "< javascript:x>"),
        ("@Everyone @here @allen", "@ Everyone @ here @allen"),
        ("[log in](https://evil.example)", "[log in] (https://evil.example)"),
        ("a\u202etxt.exe\x1b[31m\x00\x9b", "atxt.exe[31m"),
        ("price < 5, > 3\n<3 a@b.example [x]", "price < 5, > 3\n<3 a@b.example [x]"),
    ],
)
def test_signs_that_chats_obey_are_broken(text: str, shown: str) -> None:
    assert make_harmless(text) == shown == make_harmless(shown)
    notice = Notice(text, text, {"name": text})
    assert (notice.title, notice.text, notice.details) == (shown, shown, {"name": text})
