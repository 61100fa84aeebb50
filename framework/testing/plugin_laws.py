"""PluginLaws: everything that a plugin offers, tried by the laws for its kind, a test for each.

    class TestNight(PluginLaws):
        codecs = {"packed": (tuple, [(1, 2), ()])}

        def plugin(self):
            return Night(NightSettings())

What is offered is found by asking the plugin as an application does; a codec without an example is a failure that says
so. What the attributes below say is handed to the laws (`framework.testing.laws`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from framework.errors import ConfigurationError
from framework.hooks.contained import ContainedPolicy
from framework.hooks.host import PluginHost
from framework.model.allocation import Allocation
from framework.model.contracts import AllocationStrategy, DedupStore, ExpiryPolicy, ProgressStore, TakesOptions
from framework.testing import laws

Check = Callable[[Path], None]
T = TypeVar("T")


class PluginLaws:
    """Inherit, and say which plugin it is. pytest makes one test of each thing that it offers."""

    covers: ClassVar[bool] = True
    """Whether every queue has an owner by its strategies."""
    within: ClassVar[int | None] = None
    """By how many queues its strategies' shares may differ."""
    options: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Strategy -> options to try it with, where it has any that must be written."""
    codecs: ClassVar[Mapping[str, tuple[Any, Sequence[Any]]]] = {}
    """Codec -> an annotation, and values of it (of one that only reads: bodies)."""
    garbage: ClassVar[Sequence[bytes]] = laws.GARBAGE
    """What its codecs must refuse."""
    survives: ClassVar[bool] = False
    """Whether its dedup stores remember through a restart. Progress stores must."""

    def plugin(self) -> object:
        """A plugin as it is made with its settings, or its class or module."""
        raise ConfigurationError(f"{type(self).__name__}: write `def plugin(self)`, which answers the plugin")

    def pytest_generate_tests(self, metafunc: Any) -> None:
        if "law" in metafunc.fixturenames:
            found = dict(self._laws())
            metafunc.parametrize("law", list(found.values()), ids=list(found))

    def test_the_law_is_kept(self, law: Check, tmp_path: Path) -> None:
        law(tmp_path)

    def _laws(self) -> Iterator[tuple[str, Check]]:
        host, ours = PluginHost(objects={"tried": self.plugin()}, discover=list), PluginHost(discover=list)
        yield "it can be loaded", _loaded
        for name, strategy in _new(host.strategies, ours.strategies):
            yield f"strategy {name}", self._of_strategy(host, name, strategy)
        for name, policy in _new(host.expiry_policies, ours.expiry_policies):
            yield f"policy {name}", partial(_of_policy, policy)
        for name, dedup in _new(host.dedup_stores, ours.dedup_stores):
            yield f"dedup store {name}", partial(_of_dedup, dedup, self.survives)
        for name, progress in _new(host.progress_stores, ours.progress_stores):
            yield f"progress store {name}", partial(_of_progress, progress)
        for name, codec in _new(host.codecs, ours.codecs):
            yield f"codec {name}", self._of_codec(name, codec)

    def _of_strategy(self, host: PluginHost, name: str, strategy: AllocationStrategy) -> Check:
        def check(_: Path) -> None:
            chosen = strategy
            if isinstance(strategy, TakesOptions):
                model = strategy.options.model_validate(dict(self.options.get(name, {})))
                chosen = strategy.configured(model, lambda inner, _: _plain(host, inner))
            laws.check_allocation(chosen, covers=self.covers, within=self.within)

        return check

    def _of_codec(self, name: str, codec: Any) -> Check:
        def check(_: Path) -> None:
            example = self.codecs.get(name)
            assert example is not None, f"write codecs = {{{name!r}: (annotation, [a value of it, another one])}}"
            annotation, values = example
            is_written = hasattr(codec, "encoder")
            laws.check_codec(
                codec,
                annotation,
                values if is_written else (),
                bodies=() if is_written else values,
                garbage=self.garbage,
            )

        return check


def _new(offered: Mapping[str, T], built_in: Mapping[str, T]) -> list[tuple[str, T]]:
    return [(name, each) for name, each in offered.items() if name not in built_in]


def _loaded(_: Path) -> None:
    """It was, or there would be no tests."""


def _of_policy(policy: ExpiryPolicy, _: Path) -> None:
    # What the host has would answer for one that fails.
    laws.check_expiry(policy.policy if isinstance(policy, ContainedPolicy) else policy)


def _of_dedup(store: DedupStore, survives: bool, folder: Path) -> None:
    laws.check_dedup(store, folder=str(folder), survives=survives)


def _of_progress(store: ProgressStore, folder: Path) -> None:
    laws.check_progress(store, folder=str(folder))


def _plain(host: PluginHost, inner: Allocation) -> AllocationStrategy:
    strategy = host.strategies[inner.name]
    if isinstance(strategy, TakesOptions):
        model = strategy.options.model_validate(dict(inner.options))
        return strategy.configured(model, lambda each, _: _plain(host, each))
    return strategy
