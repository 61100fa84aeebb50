"""Truth: what one process commits of a queue never falls, unless it has taken the queue anew from further back."""

from __future__ import annotations

from collections.abc import Iterator

from framework.testing.errors import Violation
from framework.testing.history import Acquired, Committed, History, Remade, Reset

NAME = "offsets go forward"


def offsets_forward(history: History) -> Iterator[Violation]:
    """INVARIANTS C3, as the brokers saw it, within one acquisition. Another owner's late commit may fall: repeats."""
    highest: dict[tuple[str, str, str], int] = {}
    begun: dict[tuple[str, str, str], int] = {}
    for fact in history.facts:
        if type(fact) is Acquired:
            begun[fact.who, fact.group, fact.queue] = fact.offset
        elif type(fact) is Reset:
            queue = str(fact.queue)
            for key in [key for key in highest if key[1:] == (fact.group, queue)]:
                begun[key] = fact.offset  # from here on its owner may go on there
        elif type(fact) is Remade:
            highest.clear()
        elif type(fact) is Committed:
            key = (fact.by, fact.group, str(fact.queue))
            before = highest.get(key, 0)
            if fact.offset >= before:
                highest[key] = fact.offset
                begun.pop(key, None)
            elif fact.offset >= begun.get(key, before):
                highest[key] = fact.offset  # taken again further back, for instance after the broker had lost commits
            else:
                yield Violation(NAME, f"{fact.by} committed {fact.offset} of {fact.queue} for {fact.group} "
                                f"after {before}", fact.at)  # fmt: skip
