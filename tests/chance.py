"""What chance may decide in a run of tests: nothing, but in `make fresh`, which says so with FRESH_BASE.

Hypothesis draws the same examples each time, and others for each base. It has no deadlines: how long a machine takes is
no property of the code.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

BASE = int(os.environ.get("FRESH_BASE") or 0)
"""What a test that draws draws by."""

settings.register_profile(
    "chance",
    deadline=None,
    database=None,
    derandomize=not BASE,  # `make fresh` gives a seed of hypothesis' own, so that it can be repeated
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("chance")
