"""rocketmq-spring's RocketMQTemplate and listeners, unchanged, with our clients: by a real cluster and by the box."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from framework import App, Message, Producer, consumer, replies
from framework.hooks.host import PluginHost
from framework.settings.schema import AppSettings
from tests.interop.places import Place
from tests.interop.processes import Nursery
from tests.interop.spring_peer import SpringPeer
from tests.patience import until

pytestmark = pytest.mark.interop


class Stage:
    """A Spring application, the topics that it reads and replies on, and two of ours: one read, one replied on."""

    def __init__(self, place: Place, nursery: Nursery) -> None:
        self.place = place
        self.reads, self.replies, self.out, self.asked = (place.new_topic() for _ in range(4))
        asyncio.run(self._make_topics())
        self.spring = SpringPeer(
            nursery, place.name_server, group=f"spring-of-{self.reads}", reads=self.reads, replies=self.replies
        )

    async def _make_topics(self) -> None:
        async with Producer(name_servers=self.place.name_server) as producer:
            for topic in (self.reads, self.replies, self.out, self.asked):
                await producer.send(topic, b"first")

    def run(self, story: Callable[[list[Message]], Awaitable[None]]) -> None:
        """Play a story beside our application; it is given the list of what that was handed."""
        given: list[Message] = []

        @consumer(self.out, f"readers-of-{self.out}")
        async def read(message: Message) -> None:
            if message.body != b"first":
                given.append(message)

        @consumer(self.asked, f"repliers-of-{self.asked}")
        @replies
        async def answer(message: Message) -> str:
            return f"python: {message.body.decode()}"

        async def bounded() -> None:
            groups = {group: {"start": "first"} for group in (f"readers-of-{self.out}", f"repliers-of-{self.asked}")}
            settings = {"cluster": {"name_servers": [self.place.name_server]}, "consumers": groups}
            app = App(AppSettings.model_validate(settings), [read, answer], plugins=PluginHost())
            running = asyncio.ensure_future(app.run())
            try:
                async with asyncio.timeout(180):
                    await story(given)
            finally:
                await app.stop()
                await running

        asyncio.run(bounded())

    async def do(self, how: str, topic: str, *words: str) -> str:
        answer: str = await asyncio.to_thread(self.spring.do, how, topic, *words)
        return answer


@pytest.fixture
def stage(place: Place, nursery: Nursery) -> Iterator[Stage]:
    stage = Stage(place, nursery)
    yield stage
    stage.spring.close()


def test_a_template_sends_in_all_its_ways_and_our_handlers_get_each_once(stage: Stage) -> None:
    async def story(given: list[Message]) -> None:
        out = stage.out
        assert (await stage.do("sync", f"{out}:vip", "sync")).startswith("SEND_OK")
        assert (await stage.do("async", out, "async")).startswith("SEND_OK")
        await stage.do("one-way", out, "one-way")
        assert (await stage.do("batch", out, "b1,b2,b3")).startswith("SEND_OK")
        assert (await stage.do("level", out, "level", "1")).startswith("SEND_OK")
        assert (await stage.do("delay", out, "delay", "1500")).startswith("SEND_OK")
        places = {await stage.do("ordered", out, f"o{number}", "customer-7") for number in range(4)}
        assert await stage.do("request", stage.asked, "tea?") == "python: tea?"
        states = [
            await stage.do("transaction", out, "committed", "COMMIT", "UNKNOWN"),
            await stage.do("transaction", out, "gone", "ROLLBACK", "UNKNOWN"),
        ]

        wanted = {
            "sync", "async", "one-way", "b1", "b2", "b3", "level", "delay", "o0", "o1", "o2", "o3", "committed",
        }  # fmt: skip
        await until(lambda: wanted <= {message.body.decode() for message in given}, "all that was sent")
        bodies = [message.body.decode() for message in given]
        assert states == ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE"]
        assert len(places) == 1, "one key, one queue"
        assert [body for body in bodies if body.startswith("o") and body[1:].isdigit()] == ["o0", "o1", "o2", "o3"]
        assert sorted(set(bodies)) == sorted(bodies)
        assert "gone" not in bodies
        assert next(message.tags for message in given if message.body == b"sync") == "vip"
        async with Producer(name_servers=stage.place.name_server) as producer:
            ours = await producer.queue_of(out, "customer-7")
        assert places == {f"SEND_OK {ours.number}"}, "our producer of that key takes the same queue"

    stage.run(story)


def test_spring_s_listeners_get_what_our_producer_sends_and_reply_to_it(stage: Stage) -> None:
    async def story(given: list[Message]) -> None:
        async with Producer(name_servers=stage.place.name_server) as producer:
            reply = await producer.request(stage.replies, "coffee?", timeout="60s")
            await producer.send(stage.reads, "one", order_key="k")
            await producer.send(stage.reads, "late", delay="1s")
            await producer.send_one_way(stage.reads, "one-way")
            await producer.send_batch([Message(stage.reads, b"b1"), Message(stage.reads, b"b2")])
        received = await asyncio.to_thread(stage.spring.received, 6)

        assert reply.body.decode() == "spring: coffee?"
        assert {"one", "late", "one-way", "b1", "b2"} <= set(received)

    stage.run(story)
