"""RocketMQ's own pure classes from Python: its SQL92 filter and its allocation strategies, in one JVM.

Questions are asked in bulk, for a JVM is slow to start and quick to answer. Their words stand in
`java_oracle/Oracle.java`.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.interop import jars

SOURCES = Path(__file__).parent / "java_oracle"
FLAGS = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def ask(questions: Sequence[dict[str, Any]], *, timeout_s: float = 60) -> list[Any]:
    """One answer a question, in their order."""
    with tempfile.TemporaryDirectory(prefix="interop-oracle-") as home:
        command = jars.java("Oracle", classes=jars.compiled(SOURCES), flags=[*FLAGS, f"-Duser.home={home}"])
        text = "".join(json.dumps(question) + "\n" for question in questions)
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout_s,
            cwd=home,
            check=False,
        )
    if done.returncode:
        raise jars.InteropError(f"the oracle ended with {done.returncode}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.rstrip("\n").split("\n")]  # a text may hold other ends of lines
