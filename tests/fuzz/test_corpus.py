"""Every input of every corpus, replayed without atheris; and the runner's own promises."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import harness, recorded, run


@pytest.mark.parametrize("name", harness.TARGETS)
def test_every_kept_input_is_answered_as_its_target_demands(name: str) -> None:
    check = harness.target(name).check
    for data in harness.corpus(name):
        began = time.process_time()
        check(data)
        assert time.process_time() - began <= harness.SLOWEST_SECONDS_MAX


@pytest.mark.parametrize("name", harness.TARGETS)
def test_seeds_with_a_byte_changed_or_cut_are_answered_too(name: str) -> None:
    """A little of what the fuzzer does, where there is no fuzzer."""
    check = harness.target(name).check
    seeds = harness.corpus(name)

    @settings(max_examples=150, deadline=None)
    @given(st.sampled_from(seeds), st.integers(0, 10_000), st.integers(0, 255), st.integers(0, 10_000))
    def mutate(seed: bytes, at: int, value: int, end: int) -> None:
        data = bytearray(seed)
        if data:
            data[at % len(data)] = value
        check(bytes(data[: end % (len(data) + 1)]) if end % 3 == 0 else bytes(data))

    mutate()


@pytest.mark.parametrize("name", harness.TARGETS)
def test_every_target_has_seeds_that_a_real_peer_wrote(name: str) -> None:
    assert recorded.seeds(name)


def test_an_unknown_target_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TARGET", "nothing")

    assert 2 == run.main()
    assert "no fuzz target 'nothing'; there are frame, header_json" in capsys.readouterr().err
