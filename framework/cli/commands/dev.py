"""Consume while you write: a broker in memory, a restart at each change, a line a message.

The application is sent to the broker in the box, whatever its settings say; with --name-server to that cluster instead.
"""

from __future__ import annotations

import argparse
import asyncio

from framework.cli import options, output
from framework.model import durations

# What a real cluster needs, and the broker in the box does not have.
_BOX_OVERRIDES = ("cluster.tls.enabled=false", "cluster.allow=[]", "cluster.address_map={}")


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_application(parser)
    options.add_running(parser)
    parser.add_argument("--json", action="store_true", help="events instead of the tail, as `run --json`")


def execute(arguments: argparse.Namespace) -> int:
    options.set_up_logs(arguments)
    return asyncio.run(_develop(arguments))


async def _develop(arguments: argparse.Namespace) -> int:
    if arguments.name_server:
        return await _follow(arguments, arguments.name_server)
    from framework.broker.server import Broker
    from framework.net.real_world import real_world

    broker = Broker(real_world(), data=None)
    await broker.start()
    try:
        arguments.name_server = broker.address
        arguments.sets += _BOX_OVERRIDES
        return await _follow(arguments, broker.address)
    finally:
        await broker.stop()


async def _follow(arguments: argparse.Namespace, name_server: str) -> int:
    from framework.cli.supervise import Plan, supervise
    from framework.cli.watch import watched_files

    def line(text: str) -> None:
        event = output.event_in(text)
        output.say(text if event is None or arguments.json else output.tail_line(event))

    plan = Plan(
        options=options.for_child(arguments, is_json=True),
        workers=arguments.workers,
        length_ms=durations.to_ms(arguments.length) if arguments.length else None,
        files=watched_files(arguments),
        on_line=line,
        on_ready=lambda: output.say(f"ready: namesrv={name_server}"),
    )
    code, totals = await supervise(plan)
    output.say(output.stopped_event(totals) if arguments.json else output.drained_line(totals))
    return code
