"""What is taken out of logs and traces, and what is left alone."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from scraper.infra import logs
from scraper.infra.redaction import redact
from scraper.settings import Settings
from tests.support.growth import assert_linear


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("https://ann:s3cret@shop.example/p", "https://***@shop.example/p"),
        ("socks5h://user-session-7:p%40ss@gw.example:1080", "socks5h://***@gw.example:1080"),
        ("https://tok@shop.example", "https://***@shop.example"),
        ("a redis://:pw@h/0 and amqp://u:p@h/v", "a redis://***@h/0 and amqp://***@h/v"),
        ("https://h/p?id=7&access_token=abc&x=1#f", "https://h/p?id=7&access_token=***&x=1#f"),
        (
            "https://h/p?API-Key=abc&X-Amz-Signature=def",
            "https://h/p?API-Key=***&X-Amz-Signature=***",
        ),
        (
            '{"url": "https://a:b@h/?token=x", "n": 1}',
            '{"url": "https://***@h/?token=***", "n": 1}',
        ),
        (
            "https://h/p?auth_key=a&Subscription-Key=b&privateKey=c&otp=d&X-Amz-Credential=e",
            "https://h/p?auth_key=***&Subscription-Key=***&privateKey=***&otp=***"
            "&X-Amz-Credential=***",
        ),
        ("api-key: abc", "api-key: ***"),
        ('{"api_key": "abc", "apikey": "d"}', '{"api_key": "***", "apikey": "***"}'),
        ("https://h/p;jsessionid=abc?id=7", "https://h/p;jsessionid=***"),
        ("https://h/cb#access_token=abc&state=1", "https://h/cb#access_token=***&state=1"),
        ("https://h/p?api%5Fkey=abc&%70ass=def", "https://h/p?api%5Fkey=***&%70ass=***"),
        (
            "https://h/?jwt=a&session=b&code=c&authorization=d",
            "https://h/?jwt=***&session=***&code=***&authorization=***",
        ),
        ("/?next=/cb?token=abc&x=1", "/?next=/cb?token=***&x=1"),
        (
            "/?next=%2Fcb%3Fx%3D1%26token%3Dabc%26y%3D2",
            "/?next=%2Fcb%3Fx%3D1%26token%3D***%26y%3D2",
        ),
        ("/?u=%252Fcb%253Fapi_key%253Dabc", "/?u=%252Fcb%253Fapi_key%253D***"),
        ("/?token[]=abc&login%5Bpassword%5D=d", "/?token[]=***&login%5Bpassword%5D=***"),
        ("/p?token=abc and ann:s3cret@shop.example/p", "/p?token=*** and ***@shop.example/p"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ('{"Cookie": "sid=1; b=2", "n": 1}', '{"Cookie": "***", "n": 1}'),
        ("SET-COOKIE: sid=1\r\nx-auth-token: abc", "SET-COOKIE: ***\r\nx-auth-token: ***"),
        ("{'Cookie': 'sid=1; b=2', 'n': 1}", "{'Cookie': '***', 'n': 1}"),
        ("[(b'cookie', b'sid=\"1\"'), (b'n', b'1')]", "[(b'cookie', b'***'), (b'n', b'1')]"),
        ("('X-Api-Key', 'abc')", "('X-Api-Key', '***')"),
        ("postgresql://u@/db?host=/run&password=s3", "postgresql://***@/db?host=/run&password=***"),
    ],
)
def test_secrets_are_taken_out(text: str, told: str) -> None:
    assert redact(text) == told


@pytest.mark.parametrize(
    "text",
    [
        "https://shop.example/p/7-b@r.html?page=2&author=me&keyword=x&monkey=1",
        "mail to ann@shop.example",
        "https://shop.example/@ann?sort=key",
        "https://shop.example/p?postcode=1010&barcode=7&passage=2&sessions=3",
        "/?next=%2Fcb%3Fmonkey%3D1%26sort%3Dkey&filter[monkey]=2",
        "12:30 mail to ann@shop.example, ratio 3:2",
        "cookies: 3, X-Forwarded-For: 1, x-monkey: 2",
        "https://shop.example/p?sort_key=price&cache-key=7, api: 2, rapikey: 3",
        "",
    ],
)
def test_all_else_is_left_alone(text: str) -> None:
    assert redact(text) == text


@given(st.text(alphabet="ab:/@?&=. \"'", max_size=60))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@pytest.mark.parametrize(
    "part",
    ["a.", "a:", "a:b@", "x-a-", "cookie': '", "?token=", "://", "?a=%3f", "?a=%2525", "?a=?key"],
)
def test_a_hostile_text_takes_linear_time(part: str) -> None:
    assert_linear(lambda size: f"{part * size}@=", redact, 20_000)


@pytest.fixture
def restored() -> Iterator[None]:
    """Logging as it was, once the test is over."""
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    before = structlog.get_config()
    yield
    logging.captureWarnings(False)
    logging.getLogger().handlers[:] = handlers
    logging.getLogger().setLevel(level)
    structlog.configure(**before)


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.usefixtures("restored")
def test_no_log_line_of_any_library_has_a_login(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr("sys.stderr", stream := io.StringIO())
    logs.configure(Settings(log_format=form))  # type: ignore[arg-type]
    structlog.get_logger("ours").info("ours", url="https://ann:s3cret@shop.example/")
    logging.getLogger("celery.worker").warning("cannot connect to %s", "amqp://ann:s3cret@h//")
    try:
        raise RuntimeError("no answer of http://ann:s3cret@h/?token=s3cret")
    except RuntimeError:
        structlog.get_logger("ours").exception("theirs")
    text = stream.getvalue()
    assert "s3cret" not in text and "shop.example" in text and "no answer of" in text
    if form == "json":
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line["event"] for line in lines] == [
            "ours",
            "cannot connect to amqp://***@h//",
            "theirs",
        ]
        assert [line["level"] for line in lines] == ["info", "warning", "error"]
