"""Typed calls to a cluster: routes, brokers, pulls, sends. Knows the network by `net` and nothing of consuming."""
