"""Orderly groups: one worker per line, under the broker's lock, with failed messages first.

Open to other rooms: `pool`, `desk`, `ends`, `lease`, `watch`.
"""
