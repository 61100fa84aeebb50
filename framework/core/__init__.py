"""Decisions about consuming. Pure: time is an argument, and the answer says what should happen."""
