"""From what settings name to what a group asks, and what is said about mistakes on that way."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.errors import ConfigurationError
from framework.hooks.builtin.allocation.by_config import ByConfig
from framework.hooks.builtin.allocation.consistent_hash import ConsistentHash
from framework.hooks.builtin.allocation.machine_room import MachineRoom
from framework.hooks.builtin.allocation.nearby import Nearby
from framework.hooks.host import PluginHost
from framework.hooks.validated import choose
from framework.model.contracts import AllocationStrategy
from framework.model.queue import MessageQueue
from framework.settings.sources import load

QUEUES = [MessageQueue("orders", f"{room}-broker", number) for room in ("east", "west") for number in range(4)]


def chosen(folder: Path, text: str) -> AllocationStrategy:
    """The strategy of the group `billing`, whose settings hold `allocation: ` and this text."""
    file = folder / "app.yaml"
    file.write_text(f"consumers:\n  billing:\n    allocation: {text}\n")
    settings = load(file, environment={})
    host = PluginHost(discover=tuple)
    return choose(
        settings.consumer("billing").allocation, host.strategies, ("consumers", "billing", "allocation"), settings
    )


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        chosen(folder, text)
    return str(caught.value).replace(f"{folder}/", "")


def test_options_reach_the_strategy(tmp_path: Path) -> None:
    members = ["10.0.0.1@a", "10.0.0.2@b", "10.0.0.3@c"]
    made = chosen(tmp_path, "{consistent_hash: {virtual_nodes: 100}}")

    for member in members:
        assert ConsistentHash(100).allocate(member, members, QUEUES) == made.allocate(member, members, QUEUES)
    assert ConsistentHash().allocate(members[0], members, QUEUES) != made.allocate(members[0], members, QUEUES)


@pytest.mark.parametrize("name", ["averaging", "circle", "sticky", "consistent_hash", "nearby"])
@pytest.mark.parametrize("text", ["{}", "{{{}: }}", "{{{}: {{}}}}"])
def test_a_plain_name_is_enough_where_options_have_defaults(tmp_path: Path, name: str, text: str) -> None:
    assert name == chosen(tmp_path, text.format(name)).name


def test_a_strategy_may_stand_on_another_with_options_of_its_own(tmp_path: Path) -> None:
    made = chosen(tmp_path, "{nearby: {over: {consistent_hash: {virtual_nodes: 7}}}}")
    members = ["east-1", "east-2", "west-1"]

    assert isinstance(made, Nearby)
    for member in members:
        expected = Nearby(ConsistentHash(7)).allocate(member, members, QUEUES)
        assert expected == made.allocate(member, members, QUEUES)


def test_each_group_has_a_strategy_of_its_own(tmp_path: Path) -> None:
    one = chosen(tmp_path, "{machine_room: {rooms: [east]}}")
    two = chosen(tmp_path, "{by_config: {members: {web: [orders@east-broker]}}}")

    assert isinstance(one, MachineRoom)
    assert isinstance(two, ByConfig)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("avering", "app.yaml:3:5: consumers.billing.allocation: no strategy 'avering'; did you mean 'averaging'?"),
        ("{zzz: }", "app.yaml:3:18: consumers.billing.allocation: no strategy 'zzz'; known: averaging, by_config,"),
        ("{circle: {start: 3}}", "app.yaml:3:18: consumers.billing.allocation: the strategy 'circle' has no options"),
        (
            "{consistent_hash: {virtual_node: 3}}",
            "app.yaml:3:36: unknown key 'virtual_node' in consumers.billing.allocation.consistent_hash; did you mean",
        ),
        (
            "{consistent_hash: {virtual_nodes: 0}}",
            "app.yaml:3:36: consumers.billing.allocation.consistent_hash.virtual_nodes: expected at least 1, found",
        ),
        ("machine_room", "app.yaml:3:5: consumers.billing.allocation.machine_room.rooms: is missing"),
        ("by_config", "app.yaml:3:5: consumers.billing.allocation.by_config.members: is missing"),
        (
            "{by_config: {members: {web: [orders]}}}",
            "app.yaml:3:46: consumers.billing.allocation.by_config.members.web.0: write topic@broker:0-3,",
        ),
        (
            "{nearby: {over: circel}}",
            "app.yaml:3:27: consumers.billing.allocation.nearby.over: no strategy 'circel'; did you mean 'circle'?",
        ),
        (
            "{nearby: {over: {consistent_hash: {x: 1}}}}",
            "app.yaml:3:52: unknown key 'x' in consumers.billing.allocation.nearby.over.consistent_hash; known here:",
        ),
        ("[circle]", "app.yaml:3:5: consumers.billing.allocation: write one strategy: its name, or {name: {option"),
        ("{circle: , averaging: }", "app.yaml:3:5: consumers.billing.allocation: write one strategy"),
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, text: str, mistake: str) -> None:
    found = refusal(tmp_path, text)

    assert found.startswith(mistake), found
