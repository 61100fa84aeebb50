"""Consume while you write: a broker in memory, a restart at each change, one line per message.

It shows where its broker listens, the command that sends a first message, and what each handler consumes. Your
application connects to the built-in broker, whatever its settings say; with --name-server to that cluster instead.
"""

from __future__ import annotations

import argparse
import asyncio
import errno
from typing import TYPE_CHECKING

from framework.cli import broker_plugins, options, output, quick_start
from framework.cli.exit_codes import ExitCode
from framework.cli.greeting import banner
from framework.cli.live.sockets import of_parent
from framework.errors import ConfigurationError
from framework.mistakes import UsageWrong
from framework.model import durations
from framework.runtime.logs import streams

if TYPE_CHECKING:
    from framework.broker.server import Broker
    from framework.cli.output import Event
    from framework.cli.watch import Stamp

EXAMPLES = """\
examples:
  framework-app dev                            the application of this folder's framework-app.yaml
  framework-app dev orders.py                  your first handler; no broker and no settings are needed
  framework-app dev orders.py --port 19876     its broker at this port, and at no other
  framework-app dev --name-server 10.0.0.5:9876    with a cluster instead of a broker of its own
"""
PORTS = (9876, 9886, 9896, 9906)
"""Tried in this order, so that a command you have copied still works after the next start. RocketMQ's own comes first;
steps of ten leave room for the VIP port, two below."""
# What a real cluster needs, and the built-in broker does not have.
_BOX_OVERRIDES = ("cluster.tls.enabled=false", "cluster.allow=[]", "cluster.address_map={}")


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_application(parser)
    options.add_running(parser)
    parser.add_argument(
        "--port", metavar="P", type=options.number(1, 65_535),
        help=f"the broker's port (default: {PORTS[0]}, or another one where that is taken)",
    )  # fmt: skip
    broker_plugins.add_option(parser, "--box-plugin")
    parser.add_argument("--json", action="store_true", help="JSON events instead of these lines, as `run --json`")


def execute(arguments: argparse.Namespace) -> int:
    quick_start.end()
    if arguments.json:
        streams.reserve_stdout()
    return asyncio.run(_develop(arguments))


class _BuiltIn:
    """The broker, brought up while the first child is on its way: half of a start would be waiting otherwise."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._broker: Broker | None = None
        self.name_server = ""

    async def address(self) -> str:
        """Where it listens; the cluster that was named, where one was. Loading it takes longer than starting it."""
        if self.name_server:
            return self.name_server
        if self._arguments.name_server:
            for option in ("--box-plugin", "--port"):
                if getattr(self._arguments, option.strip("-").replace("-", "_")):
                    raise UsageWrong(
                        f"{option} is for the built-in broker, which --name-server replaces; remove one of them"
                    )
            self.name_server = self._arguments.name_server
            return self.name_server
        self._broker = await self._started()
        self.name_server = self._broker.address
        return self.name_server

    async def _started(self) -> Broker:
        from framework.broker.server import Broker
        from framework.net.real_world import real_world

        world = real_world()
        handlers = broker_plugins.handlers_of(self._arguments.box_plugin, world.clock)
        given = self._arguments.port
        for port in PORTS if given is None else ():
            broker = Broker(world, data=None, port=port, handlers=handlers)
            try:
                await broker.start()
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
            else:
                return broker
        broker = Broker(world, data=None, port=given or 0, handlers=handlers)
        await broker.start()
        return broker

    async def close(self) -> None:
        if self._broker is not None:
            await self._broker.stop()


class _Screen:
    """What is shown: the banner, `ready`, a line per message; or the events as they are."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._facts: Event = {}
        self._is_ready = False

    @property
    def has_begun(self) -> bool:
        """Whether anything was fit to run; else the errors say all there is to say."""
        return bool(self._facts)

    def configured(self, facts: Event) -> None:
        """At the start, and after each change: then the consumers alone, if they are others."""
        before, self._facts = self._facts, facts
        if self._arguments.json:
            return
        if not before:
            shown = banner.lines(facts, self._cluster(facts), self._arguments.workers, self._send_options(facts))
        else:
            shown = banner.consumer_lines(facts) if facts["consumers"] != before["consumers"] else []
        for line in shown:
            output.say(line)

    def ready(self, facts: Event) -> None:
        """Once. A message that was handled says it as well."""
        if self._is_ready:
            return
        self._is_ready = True
        public = {name: value for name, value in facts.items() if name != "send"}
        output.say_ready(public, banner.ready_line(facts), is_json=self._arguments.json)

    def line(self, text: str) -> None:
        event = output.event_in(text)
        if event is None:
            return
        self.ready(self._facts)
        output.say(text if self._arguments.json else output.tail_line(event))

    def _cluster(self, facts: Event) -> str:
        where = ",".join(facts["name_servers"])
        return where if self._arguments.name_server else f"built-in broker at {where}, in memory"

    def _send_options(self, facts: Event) -> list[str]:
        """What `send` needs beside the settings that it finds by itself, to reach what these handlers listen to."""
        given = self._arguments
        found = ["--config", given.config] if given.config else []
        for overlay in given.overlay:
            found += ["--overlay", overlay]
        for each in given.sets:
            found += ["--set", each] if each.startswith("cluster.namespace=") else []
        try:
            cluster = options.loaded(given).settings.cluster
        except ConfigurationError:
            return found
        if not given.name_server and (cluster.tls.enabled or cluster.allow or cluster.address_map):
            for each in _BOX_OVERRIDES:
                found += ["--set", each]
        return [*found, "--name-server", ",".join(facts["name_servers"])]


async def _develop(arguments: argparse.Namespace) -> int:
    from framework.cli.processes.supervise import Plan, supervise

    broker, screen = _BuiltIn(arguments), _Screen(arguments)

    def files() -> Stamp:
        from framework.cli.watch import watched_files

        return watched_files(arguments)()

    options.set_up_logs(arguments)  # before the sockets, which have something to say
    place = of_parent(arguments)
    child = options.for_child(
        arguments,
        is_json=True,
        name_server=options.FROM_PARENT,
        sets=() if arguments.name_server else _BOX_OVERRIDES,
    )
    plan = Plan(
        control=place,
        options=[*child, "--in-dev", "--restarted"],
        workers=arguments.workers,
        length_ms=durations.to_ms(arguments.length) if arguments.length else None,
        limits_ms=options.stop_limits(arguments),
        may_end=bool(arguments.until_idle),
        files=files,
        ends_unheard=True,
        survives=True,
        on_line=screen.line,
        greeting=broker.address,
        on_configured=screen.configured,
        on_ready=screen.ready,
    )
    try:
        code, totals = await supervise(plan)
    finally:
        await broker.close()
    if arguments.json:
        output.say(output.stopped_event(totals))
    elif screen.has_begun or code in {ExitCode.CLEAN, ExitCode.ABANDONED}:
        output.say(output.drained_line(totals))
    return code
