"""A folder to put before a shell's PATH: what is typed as `scraper` there runs in a process that is
forked (see `forked`), with the shell's streams, environment and working folder."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tests.support.servers import forked

RUN_S = 300.0
# It asks for its process, and exits as that does. Nothing is imported that it does not need.
SCRIPT = """#!{python} -ISE
import json, os, socket, sys
asks = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asks.connect({path!r})
text = json.dumps({{"words": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}})
socket.send_fds(asks, [text.encode()], [1, 2, 0])
code = int(asks.recv(100) or 1)
sys.exit(code if code >= 0 else 128 - code)
"""


@contextmanager
def typed_commands(folder: Path) -> Iterator[Path]:
    """Makes the folder, and serves what is typed until the end of the block."""
    folder.mkdir()
    path, script = folder / "socket", folder / "scraper"
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as listening:
        listening.bind(str(path))
        listening.listen()
        script.write_text(SCRIPT.format(python=sys.executable, path=str(path)))
        script.chmod(0o755)
        threading.Thread(target=_serve, args=(listening,), daemon=True).start()
        yield folder
        # A plain close would leave the thread in its wait.
        listening.shutdown(socket.SHUT_RDWR)


def _serve(listening: socket.socket) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_run, args=(listening.accept()[0],), daemon=True).start()


def _run(asked: socket.socket) -> None:
    with asked:
        text, files, _, _ = socket.recv_fds(asked, forked.MESSAGE_BYTES, 3)
        message = json.loads(text)
        process = forked.start(
            ["scraper", *message["words"]], message["env"], *files, cwd=Path(message["cwd"])
        )
        for file in files:
            os.close(file)
        try:
            code = process.wait(RUN_S)
        finally:
            process.kill()
        with suppress(OSError):
            asked.send(b"%d" % code)
