"""A deploy whose handlers all fail, looked at from outside: a lag of nothing is no `up to date`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from framework import Message, Producer, consumer
from framework.cli import main
from framework.cli.exit_codes import ExitCode
from tests.interop.inside import application, running
from tests.interop.places import Place
from tests.patience import until, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("lone_cluster")]


def test_a_group_that_handles_nothing_is_not_up_to_date(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    topic = place.made_topic(queues=1)
    group, where = f"fails-{topic}", ("--name-server", place.name_server)

    @consumer(topic, group)
    async def fail(message: Message) -> None:
        raise ValueError(message.body)

    def told() -> dict[str, Any]:
        capsys.readouterr()
        assert ExitCode.CLEAN == main.run(["groups", "--json", *where])
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        (row,) = [row for row in rows if row["group"] == group]
        return dict(row)

    def said(command: str) -> str:
        capsys.readouterr()
        main.run([command, group, *where])
        return capsys.readouterr().out.splitlines()[0]

    async def story() -> None:
        async with Producer(name_servers=[place.name_server]) as producer:
            for number in range(5):
                await producer.send(topic, f"m{number}")
        app = application(place.name_server, fail, of_group={"max_retries": 1})
        async with running(app):
            await until(lambda: app.counts.retried == 5, patience_s=60)
            await asyncio.to_thread(wait_until, lambda: told()["state"] == "failing", "the group is seen to fail")
            seen = await asyncio.to_thread(told)
            assert (1, 5) <= (seen["members"], seen["failed_last_hour"])
            assert seen["success_ago_s"] is None
            for command in ("groups", "lag"):
                verdict = await asyncio.to_thread(said, command)
                assert verdict.startswith(f"{group}: failing: nothing succeeds; "), verdict
            await until(lambda: app.counts.dead_lettered == 5, patience_s=90)
        gone = await asyncio.to_thread(told)
        assert (5, 5) == (gone["dead_letters"], gone["dead_last_hour"])
        assert "5 dead letters in the last hour" in await asyncio.to_thread(said, "lag")

    asyncio.run(story())
