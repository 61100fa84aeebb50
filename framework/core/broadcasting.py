"""What becomes of a broadcasting group's deliveries: each process is alone with its messages.

Nobody keeps a copy: no retry topic, no dead letters. What fails is tried again where it is, as often as the settings
allow, and is then dropped and said so.
"""

from __future__ import annotations

from framework.core.retry import SendBack, Settle, Stay, decide_in_order
from framework.model.outcome import Outcome


def decide_broadcasting(outcome: Outcome, attempt: int, max_retries: int) -> Settle | Stay:
    """`attempt` is 1 on first delivery."""
    decision = decide_in_order(outcome, attempt, max_retries)
    return Settle("dropped") if isinstance(decision, SendBack) else decision
