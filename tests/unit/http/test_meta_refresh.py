"""Pages that send their readers on without a redirect."""

from __future__ import annotations

import pytest

from scraper.http.redirects import find_refresh

URL = "https://shop.example/a/b"
X = "https://shop.example/x"


@pytest.mark.parametrize(
    "content", ["0; url=/x", "0;/x", "0, /x", "0; URL='/x'", '0;url = "/x"', "5;url=../x", ".5; url=/x"]
)  # fmt: skip
def test_a_refresh_is_read_as_browsers_do(content: str) -> None:
    assert find_refresh({"refresh": content}, b"", URL) == X.encode()
    quote = "'" if '"' in content else '"'
    meta = f"<META Content={quote}{content}{quote} http-equiv=Refresh>"
    assert find_refresh({}, meta.encode(), URL) == X.encode()


@pytest.mark.parametrize("content", ["600; url=/x", "0", "0;", "0; url=", "0; url=#top", "x"])
def test_a_page_that_loads_itself_again_leads_nowhere(content: str) -> None:
    assert find_refresh({"refresh": content}, b"", URL) is None
    assert find_refresh({}, f'<meta http-equiv=refresh content="{content}">'.encode(), URL) is None


def test_texts_about_a_refresh_are_none() -> None:
    quoted = b"<script>\"<meta http-equiv=refresh content='0;url=/x'>\"</script>"
    for body in (quoted, b"<!-- <meta http-equiv=refresh content='0;/x'> -->", b"refresh 0;/x"):
        assert find_refresh({}, body, URL) is None


@pytest.mark.parametrize(
    "target",
    ["http://[x", "//a:b/c", "javascript:void(0)", "about:blank", "intent://x", "mailto:a@b.example"],
)  # fmt: skip
def test_other_things_than_web_pages_lead_nowhere(target: str) -> None:
    assert find_refresh({"refresh": f"0; url={target}"}, b"", URL) is None
    meta = f'<meta http-equiv=refresh content="0; url={target}">'
    assert find_refresh({}, meta.encode(), URL) is None
