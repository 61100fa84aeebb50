"""What users' type checkers see: mypy runs over `api.py` and over snippets that must not pass."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mypy import api

pytestmark = pytest.mark.xdist_group("mypy")  # its cache is a database that waits for nobody
ROOT = Path(__file__).parents[2]
HEAD = "from framework import Delivery, Message, Retry, RetryLater, consumer\n"


def complaints(*arguments: str) -> str:
    limit = sys.getrecursionlimit()
    try:
        output, errors, _ = api.run(
            ["--config-file", str(ROOT / "pyproject.toml"), "--follow-imports=silent", *arguments]
        )
    finally:
        sys.setrecursionlimit(limit)  # mypy raises it for the whole process; other tests nest things on purpose
    assert not errors
    return output


MISTAKES = [
    ('@consumer("t", grup="g")\ndef f(m: Message) -> None: ...', "call-arg"),
    ('@consumer("t", 3)\ndef f(m: Message) -> None: ...', "arg-type"),
    ('@consumer("t", "g")\ndef f(m: Message) -> int: return 1\nx: str = f(Message("t"))', "assignment"),
    ('@consumer("t", "g")\ndef f(m: Message) -> None: ...\nf()', "call-arg"),
    ('@consumer("t", "g")\ndef f(m: Message) -> None: ...\nf(3)', "arg-type"),
    ('@consumer("t", "g")\nasync def f(m: Message) -> None: ...\nf(Message("t")).bit_length()', "attr-defined"),
    ('@consumer("t", "g", batch="many")\ndef f(m: list[Message]) -> None: ...', "arg-type"),
    ('@consumer("t", "g", retry=Retry(dealys=["1s"]))\ndef f(m: Message) -> None: ...', "call-arg"),
    ('@consumer("t", "g", retry=Retry(then=RetryLater))\ndef f(m: Message) -> None: ...', "arg-type"),
    ('@consumer("t", "g")\ndef f(o: dict[str, int], m: Message) -> None: ...\nf({"a": 1})', "call-arg"),
    ('@consumer("t", "g", batch=2)\ndef f(m: list[Message]) -> None: ...\nf(Message("t"))', "arg-type"),
    ("@consumer\ndef f(m: Message) -> None: ...", "call-arg"),
    ('from framework import Producer\nasync def f(p: Producer) -> None: await p.send("t", "x", queue=2)', "arg-type"),
    ('from framework import Producer\nasync def f(p: Producer) -> None: await p.send("t", "x", at="2030")', "arg-type"),
    ('from framework import Producer\nasync def f(p: Producer) -> None: p.send("t", "x")', "unused-coroutine"),
    ('from framework import Publisher\nasync def f(p: Publisher) -> None: await p.send("t", "x", queue=2)', "arg-type"),
    ('from framework import SyncProducer\nSyncProducer(name_servers="a:1").send("t", "x", oder_key="k")', "call-arg"),
    ('from framework import SyncProducer\nSyncProducer(name_servers="a:1", retrys=3)', "call-arg"),
    ('from framework import SyncProducer\nSyncProducer(name_servers="a:1", when_away="stay")', "arg-type"),
]
"""Snippet, and what it is told."""


def test_mistakes_are_seen_before_anything_runs(tmp_path: Path) -> None:
    """All at once: mypy takes a second to begin."""
    paths = [tmp_path / f"snippet_{number}.py" for number in range(len(MISTAKES))]
    for path, (snippet, _) in zip(paths, MISTAKES, strict=True):
        path.write_text(HEAD + snippet + "\n")

    lines = complaints(*map(str, paths)).splitlines()
    for path, (snippet, complaint) in zip(paths, MISTAKES, strict=True):
        assert any(path.name in line and f"[{complaint}]" in line for line in lines), snippet


def test_the_signature_of_a_handler_is_kept() -> None:
    """`api.py` states it with `assert_type`, in the words of whoever writes handlers."""
    assert complaints(str(Path(__file__).with_name("api.py"))).startswith("Success")
