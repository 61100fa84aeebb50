"""Which groups keep what has ended above a gap without being told to, and in what."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from framework.declare import Consumer, consumer
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.model.message import Message
from framework.net.real_world import real_world
from framework.runtime.group.plan import Keeping
from framework.runtime.plans.groups import group_plans
from framework.runtime.reports import Reports
from framework.settings.changes import Kind, changes
from framework.settings.schema import AppSettings


def keeping(
    progress: str | None = None, *, orderly: bool | Literal["key"] = False, **of_handler: Any
) -> Keeping | None:
    """What one group's settings and handler come to."""

    async def bill(message: Message) -> None: ...

    by_key: dict[str, Any] = {"key": lambda message: message.body} if orderly == "key" else {}
    handler: Consumer[..., Any] = consumer("orders", "billing", orderly=orderly, **by_key, **of_handler)(bill)
    chosen = {} if progress is None else {"consumers": {"billing": {"progress": progress}}}
    world = real_world()
    (plan,) = group_plans(
        AppSettings.model_validate(chosen),
        [handler],
        PluginHost(discover=lambda: ()),
        Reports(None, world.workers),
        world,
    )
    return plan.progress


@pytest.mark.parametrize("progress", [None, "auto"])
def test_a_concurrent_group_has_a_topic_or_this_machine_once_a_gap_lasts(progress: str | None) -> None:
    found = keeping(progress)
    assert found is not None
    assert found.instead is not None
    assert ("topic", "local", True) == (found.store.name, found.instead.name, found.is_auto)


@pytest.mark.parametrize("progress", [None, "auto", "none"])
@pytest.mark.parametrize(
    "of_handler",
    [{"orderly": True}, {"orderly": "key"}, {"orderly": True, "commit": "manual"}, {"broadcasting": True}],
    ids=["queue", "key", "by-hand", "broadcasting"],
)
def test_a_group_that_nobody_takes_over_above_a_gap_keeps_nothing(
    of_handler: dict[str, Any], progress: str | None
) -> None:
    """In order there is no gap to keep, and broadcasting members keep their own offsets: no mistake, and no store."""
    assert keeping(progress, **of_handler) is None


def test_what_is_named_is_used_from_the_first_acquisition_on() -> None:
    found = keeping("topic")
    assert found is not None
    assert not found.is_auto
    assert keeping("none") is None


def test_a_wrong_name_is_told_what_there_is() -> None:
    with pytest.raises(ConfigurationError, match=r"no store 'every'; known: auto, none, broker, local, topic"):
        keeping("every")
    with pytest.raises(ConfigurationError, match=r"no store 'atuo'; did you mean 'auto'\?"):
        keeping("atuo")


def test_a_change_of_it_waits_for_a_restart() -> None:
    before, after = (
        AppSettings.model_validate({"consumers": {"billing": {"progress": name}}}) for name in ("auto", "none")
    )
    assert [("consumers.billing.progress", Kind.RESTART)] == [(each.name, each.kind) for each in changes(before, after)]
