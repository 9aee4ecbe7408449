"""Turns libcurl's errors into the nearest errors of httpx."""

from __future__ import annotations

import ssl

import httpx
from curl_cffi import CurlECode, CurlError

_TLS = frozenset({
    CurlECode.SSL_CONNECT_ERROR, CurlECode.PEER_FAILED_VERIFICATION, CurlECode.SSL_CIPHER,
    CurlECode.SSL_CACERT_BADFILE,
    CurlECode.SSL_ISSUER_ERROR, CurlECode.SSL_CERTPROBLEM, CurlECode.SSL_INVALIDCERTSTATUS,
    CurlECode.SSL_CLIENTCERT,
})  # fmt: skip
_BROKEN = frozenset({
    CurlECode.GOT_NOTHING, CurlECode.SEND_ERROR, CurlECode.RECV_ERROR, CurlECode.PARTIAL_FILE,
    CurlECode.HTTP2_STREAM,
})  # fmt: skip
_NO_CONNECTION = frozenset({
    CurlECode.COULDNT_CONNECT, CurlECode.COULDNT_RESOLVE_HOST, CurlECode.NO_CONNECTION_AVAILABLE,
})  # fmt: skip
# What is said of answers that break off because they are invalid.
_INVALID = ("chunk", "nghttp2 recv error", "Too many response headers")
_NO_DETAIL = "Error in the HTTP2 framing layer"


def to_httpx_error(error: BaseException) -> Exception:
    """Returns the error of httpx for libcurl's code and, if one code has several meanings, its
    words."""
    if not isinstance(error, CurlError):
        return error if isinstance(error, Exception) else httpx.ReadError(type(error).__name__)
    text = _message_of(error)
    code = error.code
    if code == CurlECode.OPERATION_TIMEDOUT:
        return httpx.ConnectTimeout(text)
    if code in _TLS:
        if code == CurlECode.SSL_CONNECT_ERROR and _means_closed(text):
            return httpx.ConnectError("the connection was closed during the TLS handshake")
        failed = httpx.ConnectError(text)
        failed.__cause__ = ssl.SSLError(1, text)
        return failed
    if code in _NO_CONNECTION:
        return httpx.ConnectError(text)
    if code == CurlECode.URL_MALFORMAT:
        return httpx.InvalidURL(text)
    if code == CurlECode.HTTP2 and text in ("", _NO_DETAIL):
        return httpx.ReadError("it was closed before the answer")
    if code in _BROKEN and not any(words in text for words in _INVALID):
        return httpx.ReadError(text or "it was closed before the answer")
    return httpx.RemoteProtocolError(text or f"libcurl's error {int(code)}")


def _means_closed(text: str) -> bool:
    return any(
        sign in text
        for sign in ("SSL_ERROR_SYSCALL", "reset by peer", "Broken pipe", "unexpected eof")
    )


def _message_of(error: CurlError) -> str:
    """Returns libcurl's own words, without the binding's frame: `Failed to perform, curl: (56) … .
    See https://…`."""
    text = str(error)
    _, separator, rest = text.partition(f"({int(error.code)}) ")
    return (rest if separator else text).partition(". See https://curl.se")[0]
