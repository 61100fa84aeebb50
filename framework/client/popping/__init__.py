"""Popping: messages that a broker hands out one by one, each hidden from others for a time.

Open to other rooms: `modes`, `popper`.
"""
