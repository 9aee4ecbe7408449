"""What failed is run once more, alone: `python -m tests.again EXIT-CODE`, after pytest ended with
that code.

Many of these tests start whole fleets of processes and hold them to times, on machines that others
use as well. One that fails among thousands and passes alone is told, and fails nobody's build; one
that fails again does, and so do more than a few.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# pytest's exit code where tests failed; whatever else went wrong is not repeated
FAILED = 1
MOST = 5
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main(code: int) -> int:
    if code != FAILED:
        return code
    names = sorted(json.loads(LAST_FAILED.read_text()))
    if not 0 < len(names) <= MOST:
        return code
    print(f"\nOnce more, alone: {', '.join(names)}\n", flush=True)
    done = subprocess.run(
        [Path(sys.executable).with_name("pytest"), "-n", "0", "--last-failed", *names], check=False
    )
    if done.returncode == 0:
        print(f"\nPassed alone, but failed among the others: {', '.join(names)}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
