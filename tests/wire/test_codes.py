"""The protocol's numbers."""

from __future__ import annotations

from framework.wire.codes import RequestCode, request_name


def test_a_request_is_named_with_its_number() -> None:
    assert "PULL_MESSAGE (11)" == request_name(RequestCode.PULL_MESSAGE)
    assert "request 4711" == request_name(4711)
