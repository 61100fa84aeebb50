"""Where the program in Go comes from: built on the fly from `go/`, and kept by the hash of its sources.

The modules come through the Go module proxy, with their checksums in `go.sum`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.interop.jars import InteropError, cache, locked

SOURCES = Path(__file__).parent / "go"
BUILD_TIMEOUT_S = 840  # some four hundred packages, on a machine that does other things too


def missing() -> str | None:
    """Why it cannot be built here, in words for a person, or None. The first call builds it."""
    try:
        built()
    except InteropError as error:
        return str(error)
    return None


def built() -> Path:
    """The program, built where it is not."""
    if shutil.which("go") is None:
        raise InteropError("go was not found; install Go 1.21 or newer")
    sources = sorted(SOURCES.iterdir())
    target = cache() / f"go-peer-{hashlib.sha256(b''.join(each.read_bytes() for each in sources)).hexdigest()[:16]}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_name(f"{target.name}.lock")):  # the processes of one test run all ask for it at first
        if not target.exists():
            _build(target)
    return target


def _build(target: Path) -> None:
    draft = target.with_name(f"{target.name}.new")
    try:
        subprocess.run(
            ["go", "build", "-o", str(draft), "."],
            cwd=SOURCES, check=True, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InteropError(f"go build took longer than {BUILD_TIMEOUT_S} s") from None
    except subprocess.CalledProcessError as error:
        raise InteropError(f"go build failed: {error.stderr[-2000:]}") from None
    draft.replace(target)
