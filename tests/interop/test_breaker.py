"""A deploy whose handlers all fail, on a real cluster: few dead letters, and all the rest once they are mended."""

from __future__ import annotations

import asyncio

import pytest

from framework import Message, Producer, consumer
from framework.cli import main
from tests.interop.inside import application, running
from tests.interop.places import Place
from tests.patience import until

pytestmark = pytest.mark.interop

MESSAGES, LIMIT, CONCURRENCY = 2_000, 20, 16
TRIALS = 2


@pytest.mark.parametrize("is_async", [True, False], ids=["awaited", "threads"])
def test_handlers_that_fail_all_do_not_empty_a_topic_into_the_dead_letters(
    place: Place, capsys: pytest.CaptureFixture[str], *, is_async: bool
) -> None:
    topic = place.made_topic(queues=8)
    group = f"held-{topic}"
    handled: set[bytes] = set()
    is_broken = True

    def act(message: Message) -> None:
        if is_broken:
            raise ConnectionError("no database")
        handled.add(bytes(message.body))

    async def awaited(message: Message) -> None:
        act(message)

    def plain(message: Message) -> None:
        act(message)

    def said(command: str) -> str:
        capsys.readouterr()
        main.run([command, group, "--name-server", place.name_server])
        return capsys.readouterr().out.splitlines()[0]

    async def story() -> None:
        nonlocal is_broken
        async with Producer(name_servers=[place.name_server]) as producer:
            for begin in range(0, MESSAGES, 100):
                await producer.send_batch([Message(topic, f"m{begin + each}") for each in range(100)])
        settings = {"breaker": LIMIT, "max_retries": 0, "concurrency": CONCURRENCY}
        app = application(place.name_server, consumer(topic, group)(awaited if is_async else plain), of_group=settings)

        def failures() -> int:
            return sum(each.failures for group in app.snapshot().groups for each in group.breakers)

        async with running(app):
            await until(lambda: failures() > 0, "the breaker opens")
            tried = failures()
            await until(lambda: failures() >= tried + TRIALS, "messages are tried")
            assert app.counts.dead_lettered <= LIMIT + CONCURRENCY + TRIALS + 1
            assert not app.snapshot().is_ready
            for command in ("groups", "lag"):
                verdict = await asyncio.to_thread(said, command)
                assert verdict.startswith(f"{group}: held: breaker of {topic}, mostly ConnectionError: no database;")
            is_broken = False
            await until(
                lambda: len(handled) + app.counts.dead_lettered >= MESSAGES, "all the rest is handled", patience_s=120
            )
            assert app.counts.dead_lettered <= LIMIT + CONCURRENCY + TRIALS + 2
            assert 0 == failures()

    asyncio.run(story())
