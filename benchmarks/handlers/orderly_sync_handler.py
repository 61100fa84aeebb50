"""An application with one plain handler in order: a thread goes along a queue for as long as all is plain success."""

from __future__ import annotations

from benchmarks.handlers.counting import declared
from benchmarks.handlers.threads import add_up, count

handle = declared(count, at_the_end=add_up, orderly=True)
