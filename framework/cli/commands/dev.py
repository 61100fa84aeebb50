"""Consume while you write: a broker in memory, a restart at each change, one line per message.

The application connects to the built-in broker, whatever its settings say; with --name-server to that cluster instead.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

from framework.cli import box_plugins, options, output
from framework.errors import ConfigurationError
from framework.model import durations

if TYPE_CHECKING:
    from framework.broker.server import Broker
    from framework.cli.watch import Stamp

# What a real cluster needs, and the built-in broker does not have.
_BOX_OVERRIDES = ("cluster.tls.enabled=false", "cluster.allow=[]", "cluster.address_map={}")


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_application(parser)
    options.add_running(parser)
    box_plugins.add_option(parser, "--box-plugin")
    parser.add_argument("--json", action="store_true", help="JSON events instead of these lines, as `run --json`")


def execute(arguments: argparse.Namespace) -> int:
    return asyncio.run(_develop(arguments))


class _Box:
    """The broker, brought up while the first child is on its way: half of a start would be waiting otherwise."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._broker: Broker | None = None
        self.name_server = ""

    async def address(self) -> str:
        """Where it listens; the cluster that was named, where one was. Loading it takes longer than starting it."""
        if self.name_server:
            return self.name_server
        options.set_up_logs(self._arguments)
        if self._arguments.name_server:
            if self._arguments.box_plugin:
                raise ConfigurationError(
                    "--box-plugin is for the built-in broker, which --name-server replaces; remove one of them"
                )
            self.name_server = self._arguments.name_server
            return self.name_server
        from framework.broker.server import Broker
        from framework.net.real_world import real_world

        world = real_world()
        handlers = box_plugins.handlers_of(self._arguments.box_plugin, world.clock)
        self._broker = Broker(world, data=None, handlers=handlers)
        await self._broker.start()
        self.name_server = self._broker.address
        return self.name_server

    async def close(self) -> None:
        if self._broker is not None:
            await self._broker.stop()


async def _develop(arguments: argparse.Namespace) -> int:
    from framework.cli.supervise import Plan, supervise

    box = _Box(arguments)

    def line(text: str) -> None:
        event = output.event_in(text)
        output.say(text if event is None or arguments.json else output.tail_line(event))

    def files() -> Stamp:
        from framework.cli.watch import watched_files

        return watched_files(arguments)()

    plan = Plan(
        options=options.for_child(
            arguments,
            is_json=True,
            name_server=options.FROM_PARENT,
            sets=() if arguments.name_server else _BOX_OVERRIDES,
        ),
        workers=arguments.workers,
        length_ms=durations.to_ms(arguments.length) if arguments.length else None,
        may_end=bool(arguments.until_idle),
        files=files,
        ends_unheard=True,
        on_line=line,
        greeting=box.address,
        on_ready=lambda: output.say(f"ready: namesrv={box.name_server}"),
    )
    try:
        code, totals = await supervise(plan)
    finally:
        await box.close()
    output.say(output.stopped_event(totals) if arguments.json else output.drained_line(totals))
    return code
