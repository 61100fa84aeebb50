"""An application for tests that is killed: a handler of `engine="spark"` that notes each message which it was given.

Each batch is a file of its own in the folder SEEN, there whole before the batch is settled.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

from framework_spark.frames import ADDRESS

from framework import consumer


@consumer("clicks", group="counting", engine="spark", batch=200, linger="200ms")
def counting(clicks: Any) -> Any:
    """Every fiftieth one is poison."""
    keys = [row.key for row in clicks.select("key").collect()]
    path = Path(os.environ["SEEN"], uuid.uuid4().hex)
    path.write_text(json.dumps(keys))
    path.rename(path.with_suffix(".json"))
    _held(Path(os.environ["HELD"]))
    return clicks.where("cast(key as int) % 50 = 7").selectExpr(*ADDRESS, "'dead_letter' verdict", "'poison' reason")


def _held(held: Path) -> None:
    """As long as a test wants it in here."""
    while held.exists():
        held.with_suffix(".inside").touch()
        time.sleep(0.02)
