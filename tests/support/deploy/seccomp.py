"""Runs a command as Docker would with a seccomp profile: as a user without privileges, with the
profile's calls refused.

    python tests/support/deploy/seccomp.py PROFILE COMMAND…

Reads what deploy/seccomp has: calls by name that are allowed or refused, and what becomes of all
others. Linux on x86-64.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import struct
import sys
from pathlib import Path

NUMBERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
NOBODY = 65534
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K: linux/bpf_common.h
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


def numbers() -> dict[str, int]:
    found = re.findall(r"#define __NR_(\w+) (\d+)", NUMBERS.read_text())
    return {name: int(number) for name, number in found}


def program(profile: Path) -> bytes:
    """The filter in classic BPF: the call's number is compared with each that is named."""
    rules = json.loads(profile.read_text())
    assert rules["defaultAction"] == "SCMP_ACT_ERRNO"
    number_of, code = numbers(), [(LOAD, 0, 0, 0)]
    for rule in rules["syscalls"]:
        allowed = rule["action"] == "SCMP_ACT_ALLOW"
        assert allowed or rule["action"] == "SCMP_ACT_ERRNO"
        answer = ALLOW if allowed else ERRNO | rule["errnoRet"]
        for name in rule["names"]:
            # The others are calls of other machines.
            if name in number_of:
                code += [(EQUAL, 0, 1, number_of[name]), (RETURN, 0, 0, answer)]
    code.append((RETURN, 0, 0, ERRNO | rules["defaultErrnoRet"]))
    return b"".join(struct.pack("HBBI", *line) for line in code)


def main(profile: str, *command: str) -> None:
    code = program(Path(profile))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0
    ):
        raise OSError(ctypes.get_errno(), "prctl")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
