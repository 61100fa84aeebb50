"""`progress: broker`: the built-in broker that has the queue keeps progress above a gap, beside the offset.

Only for built-in brokers. It costs no topic, and adds what no other store can: each commit carries the epoch of its
acquisition, and the broker refuses a previous owner's late commit.
"""

from __future__ import annotations

from framework.hooks.markers import hookimpl
from framework.model.contracts import KeepsProgress, ProgressMeans, ProgressStore


class BrokerStore:
    name = "broker"

    def open(self, means: ProgressMeans) -> KeepsProgress:
        return means.at_broker()


@hookimpl
def register_progress_stores() -> list[ProgressStore]:
    return [BrokerStore()]
