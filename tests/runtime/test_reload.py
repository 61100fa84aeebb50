"""Settings that change on disk while the application runs: whole, or not at all.

That it takes no more than a second is held in virtual time: `test_live_settings.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from framework import App, consumer
from framework.model.message import Message
from framework.net.task_tree import TaskTree
from framework.runtime.reload import Reload, Stamp
from framework.settings.sources import load
from tests.patience import until
from tests.runtime.test_app import box, run, send


class Watched(Reload):
    """Counts its looks at the files: what is written before the first is nothing new to it."""

    looks = 0

    def _stamp(self) -> Stamp:
        stamp = super()._stamp()
        self.looks += 1
        return stamp


class Desk:
    """A running application and its settings file."""

    def __init__(self, app: App, reload: Reload, path: Path, head: str) -> None:
        self.app, self.reload, self.path, self._head = app, reload, path, head
        self.now = 0
        self.holds_handlers = True

    def text(self, tail: str) -> str:
        return self._head + tail

    def by_rename(self, tail: str) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(self.text(tail))
        new.replace(self.path)

    def runs(self, concurrency: int) -> bool:
        return self.concurrency == concurrency

    @property
    def concurrency(self) -> int:
        return self.app.settings.consumer("billing").concurrency


@asynccontextmanager
async def desk(folder: Path, tail: str) -> AsyncIterator[Desk]:
    held: list[Desk] = []

    @consumer(topic="orders", group="billing")
    async def bill(message: Message) -> None:
        held[0].now += 1
        await until(lambda: not held[0].holds_handlers)
        held[0].now -= 1

    async with box() as broker:
        path = folder / "framework-app.yaml"
        head = f"cluster: {{name_servers: ['{broker.address}']}}\n"
        path.write_text(head + tail)
        await send(broker, "orders", *map(str, range(300)))
        app = App(load(path), [bill])
        reload = Watched(app, lambda: load(path), [path])
        held.append(Desk(app, reload, path, head))
        tree = TaskTree()
        running = tree.start(app.run(), name="app")
        tree.start(reload.run(), name="reload")
        try:
            await until(lambda: app.is_ready and reload.looks)
            yield held[0]
        finally:
            held[0].holds_handlers = False
            await app.stop(drain="1m")
            await running
            await tree.close()


def test_what_is_live_acts_and_the_rest_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, "consumers: {billing: {start: first, concurrency: 2}}\n") as it:
            await until(lambda: it.now == 2)
            with capture_logs() as lines:
                it.by_rename("consumers: {billing: {start: last, concurrency: 12}}\napp: {drain: 2s, budget: 1MiB}\n")
                await until(lambda: it.now == 12)
            said = {(line["event"], line.get("setting")) for line in lines if "setting" in line}
            assert ("setting changed", "consumers.billing.concurrency") in said
            assert ("restart required", "consumers.billing.start") in said
            assert "first" == it.app.settings.consumer("billing").start.policy
            assert (2_000, 1 << 20) == (it.app.settings.app.drain, it.app.snapshot().budget_limit)
            it.by_rename("consumers: {billing: {start: first, concurrency: 12, paused: true}}\n")
            await until(lambda: it.app.settings.consumer("billing").paused)
            it.holds_handlers = False
            await until(lambda: not it.now)
            it.holds_handlers = True
            it.by_rename("consumers: {billing: {start: first, concurrency: 3}}\n")
            await until(lambda: it.now == 3)

    run(scenario)


def test_an_edit_after_which_a_stop_takes_too_long_is_warned_of(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, "app: {killed_after: 60s}\n") as it:
            with capture_logs() as lines:
                it.by_rename("app: {killed_after: 60s, drain: 5m}\n")
                await until(lambda: it.app.settings.app.drain == 300_000)
                it.by_rename("app: {killed_after: 60s, drain: 5m, budget: 2MiB}\n")
                await until(lambda: it.app.settings.app.budget == 2 << 20)
            said = [line["reason"] for line in lines if line["event"] == "setting unsafe"]
            assert ["app.drain is 5m"] == [reason.partition(",")[0] for reason in said], "once, as long as it stays so"

    run(scenario)


@pytest.mark.parametrize("text", ["", "# all gone\n", "---\n", "consumers:\napp: {}\n"])
def test_a_file_that_lost_all_its_keys_is_refused(tmp_path: Path, text: str) -> None:
    """As when it is truncated: all defaults would start groups that are paused, and forget the name servers."""

    async def scenario() -> None:
        async with desk(tmp_path, "consumers: {billing: {paused: true, concurrency: 2}}\n") as it:
            with capture_logs() as lines:
                it.path.write_text(text)
                await until(lambda: any(each["event"].startswith("settings not reloaded") for each in lines))
            (said,) = [each for each in lines if each["event"].startswith("settings not reloaded")]
            assert str(it.path) == said["place"]
            assert "the file has no keys any more" in said["reason"]
            assert it.app.settings.consumer("billing").paused
            it.by_rename("consumers: {billing: {concurrency: 5}}\n")
            await until(lambda: it.runs(5))

    run(scenario)


@pytest.mark.parametrize(
    ("tail", "reason", "line"),
    [
        ("consumers:\n  billing: {concurrency: lots}\n", "consumers.billing.concurrency", 3),
        ("consumers:\n  billing: {concurrency: 9\n", "", 3),
        ("consumers:\n  billing: {concurrency: 9, alocation: circle}\n", "did you mean 'allocation'", 3),
        ("consumers:\n  billing: {concurrency: 9, allocation: cirle}\n", "circle", 3),
        ("consumers: {billing: {concurrency: 9}}\nplugins:\n  local: [elsewhere]\n", "plugins.local", 4),
        ("consumers: {billing: {concurrency: 9}}\napp:\n  handlers: [elsewhere]\n", "app.handlers", 4),
        ("consumers:\n  billing: {concurrency: 9}\n  bilinng: {rate: 3/s}\n", "did you mean 'billing'", 4),
        ("consumers: {billing: {concurrency: 9}}\nplugins:\n  settings: {audit: {flush_lines: 0}}\n", "flush_lines", 4),
        ("consumers: {billing: {concurrency: 9}}\nplugins:\n  settings: {audti: {}}\n", "did you mean 'audit'", 4),
    ],
)
def test_a_mistake_or_a_refused_change_changes_nothing_and_names_line_and_reason(
    tmp_path: Path, tail: str, reason: str, line: int
) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, "consumers: {billing: {concurrency: 2}}\n") as it:
            with capture_logs() as lines:
                it.by_rename(tail)
                await until(lambda: any(each["event"].startswith("settings not reloaded") for each in lines))
            (said,) = [each for each in lines if each["event"].startswith("settings not reloaded")]
            assert reason in said["reason"]
            assert f"{it.path}:{line}" in said["place"]
            assert 2 == it.concurrency
            it.by_rename("consumers: {billing: {concurrency: 5}}\n")
            await until(lambda: it.concurrency == 5)

    run(scenario)


def test_all_that_is_wrong_is_named_at_once_and_what_is_right_beside_it_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, "consumers: {billing: {concurrency: 2}}\n") as it:
            it.by_rename(
                "consumers:\n  billing: {concurrency: 9, allocation: cirle, expiry: drp}\n  bilinng: {}\n"
                "plugins:\n  settings: {audit: {flush_lines: 0}}\n"
            )
            with capture_logs() as lines:
                assert not await it.reload.reload()
            reasons = [each["reason"] for each in lines if each["event"].startswith("settings not reloaded")]
            for number, named in ((3, "cirle"), (3, "drp"), (4, "bilinng"), (6, "flush_lines")):
                assert 1 == sum(named in reason and f"yaml:{number}:" in reason for reason in reasons), named
            assert (4, 2) == (len(reasons), it.concurrency)

    run(scenario)


def test_a_group_of_this_application_that_another_process_runs_may_be_named(tmp_path: Path) -> None:
    """One file for all, and `--only billing` here."""

    async def scenario() -> None:
        async with desk(tmp_path, "consumers: {billing: {concurrency: 2}}\n") as it:
            it.app.elsewhere = frozenset({"shipping"})
            it.by_rename("consumers: {billing: {concurrency: 5}, shipping: {concurrency: 3}}\n")
            await until(lambda: it.concurrency == 5)

    run(scenario)


def test_a_certificate_that_is_not_there_refuses_the_whole(tmp_path: Path) -> None:
    """A restart would fail over it."""

    async def scenario() -> None:
        async with desk(tmp_path, "consumers: {billing: {concurrency: 2}}\n") as it:
            head = it.text("").rstrip("}\n")
            it.path.write_text(f"{head}, tls: {{enabled: true, ca_file: gone.pem}}}}\nconsumers: {{billing: {{}}}}\n")
            with capture_logs() as lines:
                assert not await it.reload.reload()
            assert "cluster.tls.ca_file" in lines[-1]["reason"]
            assert lines[-1]["place"].startswith(f"{it.path}:1:")
            assert 2 == it.concurrency

    run(scenario)


def test_a_symlink_may_be_swapped_and_a_file_may_be_away_for_a_moment(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, "consumers: {billing: {concurrency: 2}}\n") as it:
            for number, concurrency in enumerate((4, 6)):
                real = tmp_path / f"version-{number}.yaml"
                real.write_text(it.text(f"consumers: {{billing: {{concurrency: {concurrency}}}}}\n"))
                link = tmp_path / "link"
                link.symlink_to(real)
                link.replace(it.path)
                await until(partial(it.runs, concurrency))
            it.path.unlink()
            await asyncio.sleep(0.6)
            assert 6 == it.concurrency

    run(scenario)


def test_a_file_that_others_may_write_is_not_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, "consumers: {billing: {concurrency: 2}}\n") as it:
            it.path.write_text(it.text("consumers: {billing: {concurrency: 9}}\n"))
            it.path.chmod(0o666)
            with capture_logs() as lines:
                assert not await it.reload.reload()
            assert "chmod o-w" in lines[-1]["reason"]
            assert 2 == it.concurrency

    run(scenario)


def test_the_log_level_changes_and_asking_needs_no_change_of_the_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        before: dict[str, Any] = structlog.get_config()
        try:
            async with desk(tmp_path, "logging: {level: error}\n") as it:
                it.by_rename("logging: {level: debug}\n")
                await until(lambda: it.app.settings.logging.level == "debug")
                with capture_logs() as lines:
                    assert await it.reload.reload()
                assert "settings unchanged" in [line["event"] for line in lines]
        finally:
            structlog.configure(**before)

    run(scenario)
