"""Stories are told in virtual time."""

from tests.simulation.stage import pytest_pyfunc_call, story

__all__ = ["pytest_pyfunc_call", "story"]
