"""The same as pyright sees it: a handler's signature is kept, and mistakes show before anything runs.

basedpyright is pyright with its own Node.js beside it, so that nothing is fetched when a test runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
API = Path(__file__).with_name("api.py")
pytestmark = pytest.mark.timeout(300)
MISTAKES = """\
from framework import Message, Retry, RetryLater, consumer

@consumer("t", "g")
def plain(m: Message) -> int: return 1

@consumer("t", "g")
async def under_way(m: Message) -> None: ...

consumer("t", grup="g")  # mistake
consumer("t", 3)  # mistake
x: str = plain(Message("t"))  # mistake
plain()  # mistake
plain(3)  # mistake
under_way(Message("t")).bit_length()  # mistake
consumer("t", "g", batch="many")  # mistake
Retry(dealys=["1s"])  # mistake
Retry(then=RetryLater)  # mistake
"""


def complaints(path: Path, folder: Path) -> list[dict[str, Any]]:
    """Errors in this file, as pyright's standard mode has them."""
    configuration = folder / "pyrightconfig.json"
    project = {
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
        "include": [str(path)],
        "extraPaths": [str(ROOT)],
    }
    configuration.write_text(json.dumps(project))
    ended = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", configuration],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    answer = json.loads(ended.stdout)
    assert 1 == answer["summary"]["filesAnalyzed"], ended.stderr
    return [each for each in answer["generalDiagnostics"] if each["severity"] == "error"]


def test_the_signature_of_a_handler_is_kept(tmp_path: Path) -> None:
    assert [] == complaints(API, tmp_path)


def test_mistakes_are_seen_where_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "snippet.py"
    path.write_text(MISTAKES)
    wrong = [number for number, line in enumerate(MISTAKES.splitlines()) if line.endswith("# mistake")]

    assert wrong == sorted({each["range"]["start"]["line"] for each in complaints(path, tmp_path)})
