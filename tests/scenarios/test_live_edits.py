"""Settings are edited again and again while messages flow. No delivery is lost or doubled, nothing is in
force by half, and what cannot be changes nothing and names its line and its reason.

The slow tier makes 1,000 edits: `make slow PART=live_edits`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from framework.model.rate import to_rate
from framework.runtime.reload import Reload
from framework.services.orderly.calls import RUN_SECONDS
from framework.settings.fields import OnEdit
from framework.settings.schema import AppSettings
from framework.settings.sources import load
from framework.testing.sim.machine import Machine
from framework.testing.sim.streams import Stream
from tests.settings.marks import marked
from tests.simulation.checkers import ALL, nothing_pauses
from tests.simulation.cluster import Cluster
from tests.simulation.facts import Finished, Said, Started
from tests.simulation.story import Story, all_handled, tell
from tests.simulation.workload import GroupLoad, Workload

GROUPS = ("audit", "billing", "inventory")
LOADS = (
    GroupLoad(name="audit", is_async=False, fail_rate=0.02, poison_rate=0.0),
    GroupLoad(name="billing", fail_rate=0.05, poison_rate=0.01),
    GroupLoad(name="inventory", orderly=True, fail_rate=0.0, poison_rate=0.0, pauses_s=(0.002, 0.005)),
)
# Limits of time are far above what a handler takes here, or a message would rightly come twice; `logging` is the whole
# process's, and has a test of its own.
LIVE: dict[str, tuple[Any, ...]] = {
    "concurrency": (1, 2, 4, 8),
    "paused": (True, False, False),
    "rate": (None, "40/s", "500/s"),
    "cache_count": (1, 10, 1_000),
    "cache_bytes": ("64KiB", "64MiB"),
    "topic_count": (None, 8, 1_000),
    "topic_bytes": (None, "64KiB", "1MiB"),
    "timeout": ("1m", "15m", None),
    "expiry": ("send_back", "extend"),
    "breaker": (0, 5, 100),
}
# Edits pause groups and give them rates and small bounds, so messages may wait beside a free place.
CHECKED = tuple(checker for checker in ALL if checker is not nothing_pauses)
LIVE_APP: dict[str, tuple[Any, ...]] = {
    "drain": ("5s", "7s"),
    "budget": ("1MiB", "64MiB"),
    "killed_after": (None, "30s", "2m"),
}
WAITING = {"max_retries": 9, "pull_batch": 3, "start": "last", "progress": "local"}
BAD: tuple[tuple[str, str], ...] = (
    ("consumers: {billing: {concurrency: lots}}", "consumers.billing.concurrency"),
    ("consumers: {billing: {concurrency: 4, pausd: true}}", "did you mean 'paused'"),
    ("consumers: {billing: {concurrency: 2", ""),
    ("consumers: {billing: {allocation: cirle}}", "did you mean 'circle'"),
    ("consumers: {biling: {concurrency: 2}}\n\tx: y", ""),
    ("app: {budget: 64}", "app.budget"),
    (
        "plugins: {local: [elsewhere]}\nconsumers: {billing: {concurrency: 1}}",
        "a reload cannot change security settings",
    ),
    ("app: {handlers: [elsewhere], drain: 1s}", "a reload cannot change security settings"),
    ("cluster: {tls: {verify: false}}", "a reload cannot change security settings"),
    ("consumers: {billing: {concurrency: 1}, biling: {rate: 3/s}}", "did you mean 'billing'"),
    ("consumers: {billing: {concurrency: 1}}\nplugins: {settings: {stranger: {a: 1}}}", "no plugin 'stranger'"),
)
RUNS_OUT_S = 0.2
"""A handler that runs when fewer may ends in peace; none takes longer than this."""
Said_at = tuple[float, str, str, dict[str, Any]]


class Edits:
    """One application's settings file, and what ought to be in force."""

    def __init__(self, story: Story, machine: Machine, path: Path, chance: Stream) -> None:
        self.story, self.machine, self.path, self.chance = story, machine, path, chance
        assert machine.app is not None
        assert machine.node is not None
        self.app = machine.app
        self.head = {"cluster": {"name_servers": list(self.app.settings.cluster.name_servers)}}
        self.wanted: dict[str, Any] = {
            "app": {"drain": "5s"},
            "consumers": {
                load.name: {"concurrency": load.concurrency, "max_retries": 3, "pull_batch": 8, "start": "first"}
                for load in LOADS
            },
        }
        self.reload = Reload(self.app, lambda: load(path), [path])
        self.in_force: list[Said_at] = [(story.now, machine.node.name, group, {}) for group in GROUPS]
        """Since when which group has which of its own settings."""
        self.asked = story.now
        """When the last edit began; it is taken over between then and when it is looked at."""
        self.write(json.dumps({**self.head, **self.wanted}, indent=1))

    def write(self, text: str) -> None:
        self.path.write_text(text)

    async def reloaded(self) -> bool:
        node = self.machine.node
        assert node is not None
        return await self.story.cluster.loop.spawn(node, self.reload.reload(), name="reload")

    async def one(self) -> str:
        kind: Callable[[], Any] = self.chance.pick((self.live, self.live, self.live, self.waiting, self.bad))
        before, said = self.app.settings, len(self.lines())
        self.asked = self.story.now
        name: str = await kind()
        if name in {"bad", "waiting"}:
            assert before.model_dump() == self.app.settings.model_dump(), name
        if name == "bad":
            assert self.app.settings is before
            assert len(self.lines()) > said
        return name

    async def live(self) -> str:
        for _ in range(1 + self.chance.below(3)):
            part, choices = (self.wanted["app"], LIVE_APP) if self.chance.happens(0.1) else (self._of_a_group(), LIVE)
            key = self.chance.pick(tuple(choices))
            part[key] = self.chance.pick(choices[key])
        for key in ("timeout", "expiry"):
            self.wanted["consumers"]["inventory"].pop(key, None)  # where order is kept nothing expires
        self.write(json.dumps({**self.head, **self.wanted}, indent=1))
        assert await self.reloaded()
        self.check()
        return "live"

    def _of_a_group(self) -> dict[str, Any]:
        chosen: dict[str, Any] = self.wanted["consumers"][self.chance.pick(GROUPS)]
        return chosen

    async def waiting(self) -> str:
        """What needs a restart is said, and is not in force."""
        text = deepcopy({**self.head, **self.wanted})
        key = self.chance.pick(tuple(WAITING))
        text["consumers"]["billing"][key] = WAITING[key]
        said = len(self.lines("restart required"))
        self.write(json.dumps(text, indent=1))
        assert await self.reloaded()
        assert said + 1 == len(self.lines("restart required"))
        self.check()
        return "waiting"

    async def bad(self) -> str:
        text, reason = self.chance.pick(BAD)
        self.write(f"# settings\n{text}\n")
        said = len(self.lines())
        assert not await self.reloaded()
        first = self.lines()[said].fields
        assert first["place"].startswith(f"{self.path}:"), first
        assert reason in first["reason"]
        self.check()
        return "bad"

    def lines(self, event: str = "settings not reloaded") -> list[Said]:
        return [fact for fact in self.story.history.of(Said) if fact.event == event and fact.who == self._who]

    @property
    def _who(self) -> str:
        assert self.machine.node is not None
        return self.machine.node.name

    def check(self) -> None:
        """All of what ought to be in force is, in the settings and in the groups, and nothing else."""
        expected = AppSettings.model_validate({**self.head, **self.wanted})
        assert expected.model_dump() == self.app.settings.model_dump()
        for group in self.app._groups:
            name = group.plan.own_name
            chosen = expected.consumer(name)
            plan, used = group.plan, group.plan.settings
            assert (chosen.concurrency, chosen.paused, chosen.rate) == (used.concurrency, used.paused, used.rate)
            assert (chosen.timeout, chosen.expiry) == (used.timeout, plan.expiry.name)
            limits = plan.flow_limits
            assert (chosen.cache_count, chosen.cache_bytes, chosen.topic_count, chosen.topic_bytes) == (
                limits.messages_max, limits.bytes_max, limits.topic_messages_max, limits.topic_bytes_max,
            )  # fmt: skip
            assert [used.paused] * len(group.owned) == [pull.flow.is_paused for pull in group.owned.values()]
            self.in_force.append(
                (
                    self.story.now,
                    self._who,
                    name,
                    {"concurrency": used.concurrency, "paused": used.paused, "asked": self.asked},
                )
            )
        assert expected.app.budget == self.app._membership.budget.limit
        assert expected.app.drain == self.app._drain_ms


def overdone(story: Story, edits: list[Edits]) -> list[str]:
    """Handlers that began in a paused group, or beside more others than its concurrency lets run. A worker that goes
    along a line of an orderly queue comes home after 20 ms.
    """
    changes = [
        (at if values["paused"] else values["asked"], 0, who, group, values)
        for each in edits
        for at, who, group, values in each.in_force
        if values
    ]
    facts = [
        (fact.at, 1, fact.who, fact.group, fact) for fact in story.history.facts if isinstance(fact, Started | Finished)
    ]
    running: Counter[tuple[str, str]] = Counter()
    most: dict[tuple[str, str], tuple[int, int, float]] = {}
    paused: dict[tuple[str, str], float] = {}
    found = []
    for at, _, who, group, what in sorted([*changes, *facts], key=lambda each: each[:2]):
        key = (who, group)
        if isinstance(what, dict):
            before = most.get(key, (4, 4, 0.0))
            most[key] = (what["concurrency"], max(before[0], before[1] if at - before[2] < RUNS_OUT_S else 0), at)
            if what["paused"]:
                paused.setdefault(key, at)
            else:
                paused.pop(key, None)
        elif isinstance(what, Finished):
            running[key] -= 1
        else:
            running[key] += 1
            now, before_now, since = most.get(key, (4, 4, 0.0))
            allowed = max(now, before_now) if at - since < RUNS_OUT_S else now
            if running[key] > allowed:
                found.append(f"{at:.3f} {key}: {running[key]} run where {allowed} may")
            if key in paused and at > paused[key] + (RUN_SECONDS if group == "inventory" else 0.0):
                found.append(f"{at:.3f} {key}: began though paused since {paused[key]:.3f}")
    return found


@pytest.mark.parametrize(
    ("seed", "count"),
    [(1, 40), (2, 40), pytest.param(3, 1_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_edits_lose_and_double_nothing_and_are_whole_or_nothing(tmp_path: Path, seed: int, count: int) -> None:
    assert {path[2] for path in marked(OnEdit.LIVE) if path[0] == "consumers"} == set(LIVE)
    assert {path[1] for path in marked(OnEdit.LIVE) if path[0] == "app"} == set(LIVE_APP)
    chance = Stream(f"edits {seed}")

    async def scenario(story: Story) -> None:
        machines = await story.start_apps(2)
        edits = [Edits(story, machine, tmp_path / f"{machine.name}.yaml", chance) for machine in machines]
        sending = story.cluster.loop.create_task(
            story.cluster.send(2 * count, period_s=count * 0.1), name="the world sends"
        )
        kinds: Counter[str] = Counter()
        for _ in range(count):
            kinds[await chance.pick(edits).one()] += 1
            await story.sleep(chance.pick(("0s", "10ms", "100ms", "300ms")))
        await sending
        for each in edits:
            each.wanted["app"] = {"drain": "5s"}
            for of_group in each.wanted["consumers"].values():
                of_group.update(paused=False, rate=None, concurrency=8)
            each.asked = story.now
            each.write(json.dumps({**each.head, **each.wanted}))
            assert await each.reloaded()
            each.check()
        await story.within("5m").until(all_handled)
        assert {"live", "waiting", "bad"} == set(kinds), "each kind came up"
        assert [] == overdone(story, edits)
        began = Counter((fact.group, fact.message_id, fact.attempt) for fact in story.history.of(Started))
        assert [] == [place for place, times in began.items() if times > 1]
        story.history.is_calm = True

    cluster = Cluster(seed, apps=0, workload=Workload(groups=LOADS, queues=4))
    tell(scenario, cluster)
    # Only now is it known what has become a dead letter.
    assert [] == [str(violation) for checker in CHECKED for violation in checker(cluster.history)]


def test_the_choices_are_settings_that_a_file_may_have() -> None:
    assert to_rate("40/s")
    for key, choices in LIVE.items():
        for value in choices:
            AppSettings.model_validate({"consumers": {"billing": {key: value}}})
