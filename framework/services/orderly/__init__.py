"""Orderly groups: one worker per line, under the broker's lock, with failed messages first."""
