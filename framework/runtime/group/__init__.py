"""One consumer group: its plan, its parts and the order in which it takes and leaves queues.

Open to other rooms: `group`, `plan`, `subscribing`.
"""
