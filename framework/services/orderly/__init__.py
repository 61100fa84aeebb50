"""Orderly groups: one worker per line, under the broker's lock, with failed messages first.

Open to other rooms: `desk`, `ends`, `lease`, `pool`, `watch`.
"""
