"""A plugin of the built-in broker, for tests: SIGKILL as soon as it is asked for what the file AIM names.

The file has one of KINDS and a number: at the how manieth such request. It is gone once the broker is. With a third
word, `held`, the broker lives, and answers nobody until the file `aim.held` is gone, which AIM becomes then.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from framework.hooks import BoxAnswer, BoxRequest, hookimpl
from framework.wire.codes import RequestCode as Code

PULLS = {Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE}
SENDS = {Code.CONSUMER_SEND_MSG_BACK, Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE}
SOURCE = "clicks"

KINDS: dict[str, Callable[[BoxRequest], bool]] = {
    "end": lambda asked: asked.code == Code.GET_MAX_OFFSET,
    "head": lambda asked: asked.code == Code.LITE_PULL_MESSAGE and asked.fields["maxMsgNums"] == "1",
    "pull": lambda asked: asked.code in PULLS and asked.fields["topic"] == SOURCE and asked.fields["maxMsgNums"] != "1",
    "copy": lambda asked: asked.code in SENDS and SOURCE not in (asked.fields.get("b"), asked.fields.get("topic")),
    "decision": lambda asked: asked.code == Code.END_TRANSACTION,
}


class Aimed:
    def __init__(self) -> None:
        self._aim, self._asked = Path(os.environ["AIM"]), 0

    @hookimpl
    def register_broker_handlers(self) -> Mapping[int, Callable[[BoxRequest], BoxAnswer | None]]:
        codes = (Code.GET_MAX_OFFSET, Code.END_TRANSACTION, *PULLS, *SENDS)
        return {int(code): self.look for code in codes}

    def look(self, asked: BoxRequest) -> None:
        if not self._aim.exists():
            return
        kind, number, *held = self._aim.read_text().split()
        self._asked += KINDS[kind](asked)
        if self._asked < int(number):
            return
        if held:
            self._asked, there = 0, self._aim.with_suffix(".held")
            self._aim.rename(there)
            while there.exists():
                time.sleep(0.01)
        else:
            self._aim.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
