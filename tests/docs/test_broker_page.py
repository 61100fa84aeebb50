"""docs/broker.md: its users are read; docs/testing.md: its interceptors do what stands behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework import Message
from framework.broker.rules import SUB
from framework.broker.users import users_in
from framework.errors import BrokerUnreachable, FrameworkError
from framework.reading import Reader, ReaderSettings
from framework.settings.sources import read_private
from tests.docs.blocks import DOCS, blocks
from tests.patience import wait_until
from tests.reading.threads import thread_box

PAGE = DOCS / "broker.md"


def test_its_users_are_what_the_box_reads(tmp_path: Path) -> None:
    (block,) = [block for block in blocks(PAGE, "yaml") if block.text.startswith("users:")]
    path = tmp_path / "box.yaml"
    path.write_text(block.text)
    path.chmod(0o600)
    document = read_private(path)

    root, billing = users_in(document.values, document.places, str(path))
    assert (("root", True), ("billing", False)) == ((root.name, root.is_super), (billing.name, billing.is_super))
    assert 4 == len(billing.rules), "one that names two resources is two"
    assert frozenset({SUB}) == billing.rules[0].actions


def test_its_interceptors_are_taken(tmp_path: Path) -> None:
    (block,) = [block for block in blocks(DOCS / "testing.md", "python") if "Interceptor" in block.text]
    with thread_box() as box:
        box.send("orders", [Message("orders", b"hello")], queue=0)
        hasty = ReaderSettings((box.address,), request_timeout_ms=1_000, retries=0)
        with Reader(ReaderSettings((box.address,))) as reader, Reader(hasty) as unlucky:

            def dead() -> int:
                try:
                    return sum(map(reader.max_offset, reader.queues("%DLQ%billing")))
                except FrameworkError:
                    return 0

            def knows_the_way() -> bool:
                try:
                    return bool(unlucky.queues("orders"))
                except BrokerUnreachable:
                    return False

            wait_until(knows_the_way)
            (queue, *_) = reader.queues("orders")
            box.call(lambda: exec(compile(block.text, str(block), "exec"), {"broker": box.broker}))
            with pytest.raises(BrokerUnreachable, match="no answer from"):
                unlucky.send_back("billing", queue, 0, delay_level=-1)
            assert 1 == wait_until(dead, "what was done all the same")
        box.send("orders", [Message("orders", b"hello")])  # the first answer is "busy", so it is sent once more
