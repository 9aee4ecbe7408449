"""libcurl's three hooks that its Python binding leaves out: which sockets are opened, and when a
request is sent.

Here the guard acts on the address that is connected to, whoever looked it up, and here requests are
counted, libcurl's own repetitions included. Written with ctypes over cffi's handle, since curl_cffi
has no callbacks for them; whatever goes wrong inside a hook refuses. Knows transfers by a number
alone, and of them what `Transfer` says.
"""

from __future__ import annotations

import ctypes
import itertools
import socket
from collections.abc import Callable
from typing import Any, Protocol

from curl_cffi import Curl, CurlOpt, ffi, lib

_SOCKET_BAD, _ABORT = -1, 1
_ALREADY_CONNECTED = 2  # CURL_SOCKOPT_ALREADY_CONNECTED


class Transfer(Protocol):
    """What a hook asks of a transfer."""

    @property
    # Its sockets come connected, from `opened`.
    def connected(self) -> bool: ...
    # It is a socket, which libcurl closes.
    def opened(self, family: int, kind: int, proto: int, address: str) -> int: ...
    def may_send(self, address: str) -> bool: ...


class _SockAddr(ctypes.Structure):
    """struct curl_sockaddr, with room for the longest address there is."""

    _fields_ = (
        ("family", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("proto", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("address", ctypes.c_ubyte * 128),
    )


_transfers: dict[int, Transfer] = {}
_numbers = itertools.count(1)


def _open_socket(number: int | None, _purpose: int, where: int | None) -> int:
    try:
        transfer = _transfers[number or 0]
        address = ctypes.cast(where or 0, ctypes.POINTER(_SockAddr)).contents
        return transfer.opened(address.family, address.kind, address.proto, _address(address))
    except BaseException:  # noqa: BLE001  an exception here would count as socket number 0
        return _SOCKET_BAD


def _socket_options(number: int | None, _socket: int, _purpose: int) -> int:
    try:
        return _ALREADY_CONNECTED if _transfers[number or 0].connected else 0
    except BaseException:  # noqa: BLE001
        return _ABORT


def _before_sending(
    number: int | None, address: bytes | None, _local: bytes, _port: int, _local_port: int
) -> int:
    try:
        return 0 if _transfers[number or 0].may_send((address or b"").decode("ascii")) else _ABORT
    except BaseException:  # noqa: BLE001  as above: 0 would mean yes
        return _ABORT


def _address(address: _SockAddr) -> str:
    # It is a sockaddr_in or sockaddr_in6: family, port, for IPv6 the flow, address.
    raw = bytes(address.address)
    if address.family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[4:8])
    if address.family == socket.AF_INET6:
        return socket.inet_ntop(socket.AF_INET6, raw[8:24])
    raise ValueError("neither IPv4 nor IPv6")


def _pointer(function: Any) -> Any:
    return ffi.cast("void *", ctypes.cast(function, ctypes.c_void_p).value)


_INT, _DATA_POINTER, _TEXT = ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p
# The callbacks are kept for good, since libcurl holds their addresses.
_CALLBACKS = (
    (
        CurlOpt.OPENSOCKETFUNCTION,
        ctypes.CFUNCTYPE(_INT, _DATA_POINTER, _INT, _DATA_POINTER)(_open_socket),
    ),
    (CurlOpt.SOCKOPTFUNCTION, ctypes.CFUNCTYPE(_INT, _DATA_POINTER, _INT, _INT)(_socket_options)),
    (
        CurlOpt.PREREQFUNCTION,
        ctypes.CFUNCTYPE(_INT, _DATA_POINTER, _TEXT, _TEXT, _INT, _INT)(_before_sending),
    ),
)
_HOOKS = tuple((option, _pointer(callback)) for option, callback in _CALLBACKS)
_DATA = (CurlOpt.OPENSOCKETDATA, CurlOpt.SOCKOPTDATA, CurlOpt.PREREQDATA)


def hook(curl: Curl) -> None:
    """Sets the hooks of a handle, once. Until `attach` they refuse everything."""
    for option, function in _HOOKS:
        _set(curl, option, function)


def attach(curl: Curl, transfer: Transfer) -> Callable[[], None]:
    """Whom the hooks ask for this handle's next transfer. Returns what detaches it."""
    number = next(_numbers)
    _transfers[number] = transfer
    data = ffi.cast("void *", number)
    for option in _DATA:
        _set(curl, option, data)
    return lambda: _forget(number)


def set_list(curl: Curl, option: CurlOpt, items: list[bytes]) -> Any:
    """Sets an option that takes a list, which curl_cffi knows but for a few. The caller keeps the
    list until it is replaced, and frees it with `free_list`."""
    linked = ffi.NULL
    for item in items:
        linked = lib.curl_slist_append(linked, item)
    _set(curl, option, linked)
    return linked


def free_list(linked: Any) -> None:
    if linked != ffi.NULL:
        lib.curl_slist_free_all(linked)


def unset(curl: Curl, option: CurlOpt) -> None:
    """Sets a text option to nothing at all, where libcurl would have a value of its own."""
    _set(curl, option, ffi.NULL)


def _set(curl: Curl, option: CurlOpt, value: Any) -> None:
    code = lib._curl_easy_setopt(curl._curl, option, value)  # noqa: SLF001
    if code != 0:
        raise RuntimeError(f"libcurl refuses the option {option.name} ({code})")


def _forget(number: int) -> None:
    _transfers.pop(number, None)
