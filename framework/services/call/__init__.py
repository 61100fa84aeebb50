"""One call of a handler: what it is given, what stands around it, and what it comes to."""
