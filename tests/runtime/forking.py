"""A program that forks while its application runs, for test_forks.py: `python forking.py MODE NAME_SERVER`.

It prints one line of JSON: what its children came to, and how often each message was handled in the parent.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from framework import App, Message, Producer, consumer
from framework.errors import Forked
from framework.hooks.host import PluginHost
from framework.runtime.signals import draining
from framework.settings.schema import AppSettings

MESSAGES = 20
FORKS_AT = b"3"
MODE, NAME_SERVER = sys.argv[1:3]

signal.alarm(100)  # whoever hangs is not left behind
warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks in processes with threads
report: dict[str, Any] = {"handled": {}}


def peers() -> list[str]:
    """Which connections to the broker this process could write into."""
    found = []
    for entry in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError), socket.fromfd(int(entry.name), socket.AF_INET, socket.SOCK_STREAM) as one:
            found.append(one.getpeername())
    return ["{}:{}".format(*each) for each in found if len(each) == 2 and "{}:{}".format(*each) == NAME_SERVER]


def refused(use: Callable[[], Any]) -> str | None:
    try:
        use()
    except Forked as error:
        return str(error)
    return None


def in_child(answers: Any, app: App) -> None:
    """What a child of multiprocessing can still do with its parent's application."""
    answers.send(
        {
            "peers": peers(),
            "publish": refused(lambda: asyncio.run(Producer(cluster=app.cluster).send("orders", "from a child"))),
            "stop": refused(app.stop_soon),
            "awaited stop": refused(lambda: asyncio.run(app.stop())),
            "pause": refused(lambda: app.pause("billing")),
        }
    )


def child_of_its_own(answers: Any) -> None:
    """A child that makes what it needs itself is a process like any other."""

    async def send() -> None:
        async with Producer(name_servers=[NAME_SERVER]) as producer:
            await producer.send("elsewhere", "from a child")

    asyncio.run(send())
    answers.send("sent")


def sleeping(answers: Any) -> None:
    """A signal in the first moments of a child is lost in CPython itself, so it says when it may come."""
    signal.alarm(100)
    answers.send("asleep")
    signal.pause()


def forked(target: Callable[..., None], *arguments: Any) -> Any:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=target, args=(theirs, *arguments))
    child.start()
    answer = ours.recv()
    child.join()
    return answer


def act(app: App) -> None:
    """In the handler of one message."""
    report["connections"] = len(peers())
    match MODE.removesuffix(" in a thread"):
        case "uses":
            report["child"] = forked(in_child, app)
            report["own"] = forked(child_of_its_own)
        case "returns":
            child = os.fork()
            if child:
                report["exit"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            else:
                os.write(2, b"the child returns\n")
        case "raises":
            child = os.fork()
            if not child:
                raise SystemExit(0)
            report["exit"] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        case "terminates":
            context = multiprocessing.get_context("fork")
            ours, theirs = context.Pipe()
            child_process = context.Process(target=sleeping, args=(theirs,))
            child_process.start()
            ours.recv()
            child_process.terminate()
            child_process.join()
            report["exit"] = child_process.exitcode


def handled(message: Message, app: App) -> None:
    body = message.body.decode()
    os.write(2, f"handling {body} in {os.getpid()}\n".encode())
    if message.body == FORKS_AT:
        act(app)
    report["handled"][body] = report["handled"].get(body, 0) + 1
    if len(report["handled"]) == MESSAGES:
        app.stop_soon()


async def awaited(message: Message, app: App) -> None:
    handled(message, app)
    await asyncio.sleep(0)


def main() -> None:
    handler = consumer("orders", "billing")(handled if MODE.endswith("in a thread") else awaited)
    settings = {"cluster": {"name_servers": [NAME_SERVER]}, "consumers": {"billing": {"start": "first"}}}
    app = App(AppSettings.model_validate(settings), [handler], plugins=PluginHost())
    runs_here = True
    if MODE == "before":
        report["parent"] = app.member
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            runs_here = False
        signal.alarm(100)
    report.update(process=os.getpid(), member=app.member)
    if runs_here:
        with draining(app.stop_soon):
            asyncio.run(app.run())
    print(json.dumps(report), flush=True)


main()
