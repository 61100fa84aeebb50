"""The processes that a test kills are found at any moment, whatever the JVM's threads do meanwhile."""

from __future__ import annotations

import subprocess
import sys

from tests.reading.victims import descendants

ENDING = """
import subprocess, threading, time

for number in range(300):
    threading.Thread(target=time.sleep, args=(number / 300,)).start()

def started() -> None:
    child = subprocess.Popen(["sleep", "300"])
    print(child.pid, flush=True)
    child.wait()

threading.Thread(target=started).start()
"""


def test_a_child_is_found_while_threads_beside_the_one_that_started_it_end() -> None:
    """As the JVM's do. One that ended while it was looked at hid those behind it once, and what they had started."""
    with subprocess.Popen([sys.executable, "-c", ENDING], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            found = [descendants(parent.pid) for _ in range(100)]
        finally:
            for pid in (parent.pid, child):
                subprocess.run(["kill", "-9", str(pid)], check=True)

    assert [[child]] * 100 == found
