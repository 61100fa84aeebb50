"""One call of a handler: what it gets, what stands around it, and what its result means.

Open to other rooms: `batch_calls`, `deliver`, `exits`, `notes`, `once`, `publishing`, `resources`, `run_once`, `trace`,
`undecodable`.
"""
