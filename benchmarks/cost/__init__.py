"""What the client alone costs a message: the real loop, window, pool, decoding and producer, fed from memory.

`engine.py` consumes, `decoding.py` decodes and `sending.py` sends, with the network replaced; `calls.py` counts calls
and allocations, `__main__.py` measures processor time beside.
"""
