"""Safeguards of transactions and of requests: what the code is without each of them."""

from __future__ import annotations

from tests.simulation.change import Change

DIALOGUE_SAFEGUARDS: dict[str, tuple[Change, ...]] = {
    "a half message is none for consumers": (
        Change(
            "framework.client.dialogue.halves",
            "    stored = await producer.send(message, marks, is_half=True, timeout=timeout)\n",
            "    stored = await producer.send(message, {}, timeout=timeout)\n",
        ),
    ),
    "a half message is sent once": (
        Change(
            "framework.client.producing.attempts",
            "    return outgoing.is_half and _may_have_stored(error)\n",
            "    return False\n",
        ),
    ),
    "the end of a transaction is kept with its message": (
        Change(
            "framework.broker.handlers.transactions",
            "        node.transactions.end(transaction, half, state)\n",
            "",
        ),
    ),
    "a rollback is no commit": (
        Change(
            "framework.broker.handlers.transactions",
            "    state = halves.COMMITTED if header.commit_or_rollback == COMMIT else halves.ROLLED_BACK\n",
            "    state = halves.COMMITTED\n",
        ),
    ),
    "a lot is decided once": (
        Change(
            "framework.client.dialogue.lot_steps",
            "    while standing.pending is not None:  # an earlier",
            "    while False:  # an earlier",
        ),
        Change(
            "framework.client.dialogue.lot_records",
            "            case Decided() if self.pending is None and record.lot > self.lot:\n",
            "            case Decided() if record.lot >= self.lot:\n",
        ),
    ),
    "a lot is over when all of it is committed": (
        Change("framework.client.dialogue.lot_steps", "        left = unsure\n", "        left = []\n"),
    ),
    "a question about an open lot is left open": (
        Change(
            "framework.client.dialogue.lot_steps",
            '    return "rollback" if standing.is_over(lot) else "unknown"\n',
            '    return "rollback"\n',
        ),
    ),
    "a reply is for the request that it names": (
        Change(
            "framework.client.dialogue.requests",
            '        waiting = self._waiting.get(texts.get(CORRELATION, ""))\n',
            "        waiting = next((each for each in self._waiting.values() if not each.done()), None)\n",
        ),
    ),
    "a late reply is counted": (Change("framework.client.dialogue.requests", "            self.late += 1\n", ""),),
}
