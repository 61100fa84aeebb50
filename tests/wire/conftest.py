"""Hypothesis without deadlines: how long a machine takes is no property of the code."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("timeless", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("timeless")
