"""An S3 for the tests: moto's server, a process of its own on a loopback port, reached with boto3
as any other."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.ports import unused_port

START_S = 120.0
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIATESTS",
    "AWS_SECRET_ACCESS_KEY": "the-tests-secret-key",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent/config",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent/credentials",
}


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server without buckets, as AWS_ENDPOINT_URL wants it."""
    port = unused_port()
    command = [
        str(Path(sys.executable).with_name("moto_server")),
        "-H",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    # It serves all tests of an xdist worker, and is none of the first one's processes.
    env = {"PATH": os.environ.get("PATH", os.defpath), **ENVIRONMENT}
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait(process, port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert process.poll() is None, "moto's server ended by itself"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("moto's server does not listen")
