"""Stories are told in virtual time."""

from framework.testing.pytest_plugin import pytest_pyfunc_call, story

__all__ = ["pytest_pyfunc_call", "story"]
