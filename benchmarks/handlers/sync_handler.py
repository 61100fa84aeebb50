"""An application with one plain handler, which runs on many threads at once."""

from __future__ import annotations

from benchmarks.handlers.counting import declared
from benchmarks.handlers.threads import add_up, count

handle = declared(count, at_the_end=add_up)
