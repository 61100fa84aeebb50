"""The pytest plugin as its users have it: in a pytest of its own, in a folder outside of the repository."""

from __future__ import annotations

import re
from collections import Counter
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from framework.errors import ConfigurationError
from framework.testing import PluginLaws
from tests.bare_pytest import BARE

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
PLUGIN = "framework.testing.pytest_plugin"


def test_it_is_installed_where_pytest_looks() -> None:
    found = [entry.value for entry in entry_points(group="pytest11") if entry.name == "framework_app"]

    assert [PLUGIN] == found


def test_the_page_s_examples_run_as_they_stand(pytester: pytest.Pytester) -> None:
    """Five files beside each other, as a user's."""
    examples = re.findall(r"```python\n# (test_\w+)\.py\n(.*?)```", PAGE, re.DOTALL)
    pytester.makepyfile(**dict(examples))

    result = pytester.runpytest_subprocess(*BARE, "--strict-markers", "-W", "error", "-v")

    result.assert_outcomes(passed=11)
    passed = re.findall(r"(?m)^(\w+)\.py::(.+?) PASSED", result.stdout.str())
    assert {"test_shop": 1, "test_receipts": 3, "test_desk": 2, "test_outage": 1, "test_night": 4} == Counter(
        file for file, _ in passed
    )
    assert {"test_the_law_is_kept[policy patient]", "test_the_law_is_kept[codec packed]"} <= {
        name.rpartition("::")[2] for _, name in passed
    }


def test_nothing_of_the_framework_is_loaded_where_no_test_asks(pytester: pytest.Pytester) -> None:
    """Who has framework-app installed runs other tests, too: three small modules are all that they pay for."""
    pytester.makepyfile(
        """
        import sys

        def test_it_is_left_alone():
            loaded = sorted(name for name in sys.modules if name.partition(".")[0] == "framework")
            assert ["framework", "framework.testing", "framework.testing.pytest_plugin"] == loaded
            heavy = {"pydantic", "structlog", "sqlite3", "pluggy._x", "asyncio.sslproto"} & set(sys.modules)
            assert "pydantic" not in heavy and "structlog" not in heavy
        """
    )

    pytester.runpytest_subprocess(*BARE).assert_outcomes(passed=1)


def test_a_failing_test_fails_once_whatever_it_left_in_the_application(pytester: pytest.Pytester) -> None:
    """Also where the application could not be ended in order; a breakdown inside is a failure of its own."""
    pytester.makepyfile(
        """
        import asyncio
        import pytest
        from framework import Message, consumer

        @consumer("orders", "billing")
        async def hangs(order: Message) -> None:
            await asyncio.Event().wait()

        def test_fails(harness):
            desk = harness(hangs)
            desk.send("orders", "1")
            desk.sleep("1s")
            assert 0, "on purpose"

        @pytest.mark.seed(3)
        def test_two_of_them(harness):
            one, two = harness(hangs), harness(hangs)
            assert one._cluster.loop.seed == two._cluster.loop.seed == 3

        async def test_has_a_loop_of_its_own(harness): ...

        def test_hands_over_two(harness):
            harness(hangs, hangs)

        def test_time_passes_at_once(virtual_time):
            async def slow():
                await asyncio.sleep(86_400)
                return 17
            assert 17 == virtual_time(slow())
        """
    )

    result = pytester.runpytest_subprocess(*BARE, "--strict-markers")

    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines(["*on purpose*"])
    result.stdout.fnmatch_lines(["*harness: give several handlers as one list: harness([[]bill, remind])"])
    result.stdout.fnmatch_lines(
        ["*test_has_a_loop_of_its_own takes the harness, which has a loop of its own: write `def`"]
    )


def test_a_broken_law_and_a_codec_without_an_example_are_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from framework.hooks import hookimpl
        from framework.testing import PluginLaws

        class Greedy:
            name = "greedy"
            def allocate(self, member, members, queues):
                return list(queues)

        class Undecided:
            name = "undecided"
            def decide(self, delivery, age_ms):
                return None

        class Text:
            def decoder(self, annotation, parameter):
                return bytes.decode

        class Mine:
            @hookimpl
            def register_allocation_strategies(self): return [Greedy()]
            @hookimpl
            def register_expiry_policies(self): return [Undecided()]
            @hookimpl
            def register_codecs(self): return {"text": Text()}

        class TestMine(PluginLaws):
            def plugin(self): return Mine
        """
    )

    result = pytester.runpytest_subprocess(*BARE)

    result.assert_outcomes(passed=1, failed=3)
    said = result.stdout.str()
    assert "strategy 'greedy', 1 members, 1 queues: strangers: a member that is not on the list" in said
    assert "policy 'undecided', attempt 1 after 1 ms: answers: None is neither Extend nor an outcome" in said
    assert "write codecs = {'text': (annotation, [a value of it, another one])}" in said


def test_whose_plugin_it_is_must_be_said() -> None:
    with pytest.raises(ConfigurationError, match="PluginLaws: write `def plugin"):
        PluginLaws().plugin()
