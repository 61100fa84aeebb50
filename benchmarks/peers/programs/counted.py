"""What a peer's program says of itself, as `benchmarks.consumers` reads it. It needs nothing of ours."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path


class Counted:
    """Counts what was handled, and tells when the last one of COUNT was."""

    def __init__(self) -> None:
        self._report, self._count = Path(os.environ["BENCHMARK_REPORT"]), int(os.environ["BENCHMARK_COUNT"])
        self._handled = self._first_ns = 0
        self._lock = threading.Lock()

    def took(self, messages: int = 1) -> None:
        before, self._handled = self._handled, self._handled + messages
        if not before:
            self._first_ns = time.monotonic_ns()
        if before < self._count <= self._handled:
            said = {"event": "reached", "handled": self._handled, "offsets": 0}
            times = {"first_ns": self._first_ns, "last_ns": time.monotonic_ns()}
            self._report.write_text(json.dumps({**said, **times}) + "\n")

    def took_on_a_thread(self) -> None:
        with self._lock:
            self.took()


ADDRESS, TOPIC, GROUP = (os.environ[f"BENCHMARK_{name}"] for name in ("ADDRESS", "TOPIC", "GROUP"))
