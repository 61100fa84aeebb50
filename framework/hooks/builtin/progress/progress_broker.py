"""`progress: broker`: what has ended above a gap lies at the box that has the queue, beside its offset.

For brokers in the box alone. It costs no topic, and adds what no other store can: with the epoch of an acquisition on
each commit, the box refuses what a former owner commits late.
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
