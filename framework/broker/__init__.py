"""The built-in broker: one process is name server and broker, stored in SQLite.

For one machine, never a rival to a cluster.
`framework.broker.server.Broker` is the door. A consumer's process never imports this room.
"""
