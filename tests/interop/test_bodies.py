"""Bodies with values of every kind: the table that ours are held against is what RocketMQ's own classes say."""

from __future__ import annotations

import json

import pytest

from tests.interop import bodies

pytestmark = pytest.mark.interop


def test_the_table_is_what_rocketmqs_classes_make_of_each_value() -> None:
    """After a change of RocketMQ's version, or of the values: `python -m tests.interop.bodies` writes it anew."""
    kept = json.loads(bodies.TABLE.read_text(encoding="utf-8"))
    asked = bodies.asked()

    for part in ("made by", "fields", "results"):
        assert kept[part] == json.loads(json.dumps(asked[part])), part
