"""One call of a handler: what it is given, what stands around it, and what it comes to.

Open to other rooms: `batch_calls`, `deliver`, `once`, `publishing`, `resources`, `run_once`, `trace`, `undecodable`.
"""
