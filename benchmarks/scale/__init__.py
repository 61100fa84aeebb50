"""A group of many members in virtual time: what its members ask of brokers, how queues move, how soon all is at rest.

`world.py` is the cluster, `tap.py` counts the requests, `ownership.py` the moves, `drill.py` plays what happens,
`__main__.py` measures several sizes, `plot.py` draws them.
"""
