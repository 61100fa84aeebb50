"""Consume with the handlers of an application.

The first SIGINT or SIGTERM drains: running handlers finish, offsets are committed, the groups are left. The second
exits at once. A broker that is down is retried forever, unless --wait-broker is given. When settings change on disk,
or on SIGHUP, the new values apply where that needs no restart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from framework.cli import options, output
from framework.cli.embedded import embedded
from framework.cli.exit_codes import ExitCode
from framework.errors import ConfigurationError
from framework.model import durations
from framework.model.namespaces import wrap

if TYPE_CHECKING:
    from framework.cli.output import Totals
    from framework.cli.supervise import Plan
    from framework.net.wakeup import Wakeup
    from framework.runtime.app import App

IDLE_LOOK_SECONDS = 0.1
HANGING_LOOK_SECONDS = 1.0
RECYCLING_LOOK_SECONDS = 0.5


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_application(parser)
    options.add_running(parser)
    parser.add_argument("--json", action="store_true", help="JSON events on stdout, one per line")
    parser.add_argument("--reload", action="store_true", help="restart when a file of the application changes")
    parser.add_argument("--child-number", type=int, default=0, help=argparse.SUPPRESS)  # which of several children
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)  # a parent watches: say when ready


def execute(arguments: argparse.Namespace) -> int:
    if arguments.workers > 1 or arguments.reload or _is_recycled(arguments):
        return _supervised(arguments)
    return asyncio.run(_consume(*_prepared(arguments)))


def _is_recycled(arguments: argparse.Namespace) -> bool:
    """Whether processes are replaced in time: then even one of them has a parent."""
    return not arguments.child and options.loaded(arguments).settings.workers.is_recycled


def _prepared(arguments: argparse.Namespace) -> tuple[App, argparse.Namespace]:
    """Everything that can be wrong with settings, handlers and plugins comes out here, before any connection."""
    import structlog

    from framework.runtime.app import App
    from framework.runtime.logs import setup

    if arguments.child and arguments.name_server == options.FROM_PARENT:
        # By now everything is imported: the broker came up in the parent meanwhile.
        arguments.name_server = sys.stdin.readline().strip()
    application = options.loaded(arguments)
    settings = application.settings
    setup.configure(settings)
    log = structlog.get_logger()
    consumers, elsewhere = options.chosen(arguments, settings)
    app = App(settings, consumers, worker=arguments.child_number, elsewhere=elsewhere)
    setup.configure(settings)  # by now the plugins have said which of their settings are secret
    for warning in settings.warnings:
        log.warning("setting unsafe", reason=warning)
    log.info("settings loaded", file=str(application.file or "none"), name_servers=list(settings.cluster.name_servers))
    namespace = settings.cluster.namespace
    for consumer in app.consumers:
        spec = consumer.spec
        of_group = settings.consumer(spec.group)
        log.info(
            "consumer configured", name=spec.name, topic=spec.topic, group=spec.group, tags=spec.tags, sql=spec.sql,
            orderly=spec.orderly, broadcasting=spec.broadcasting,
            concurrency=of_group.concurrency, max_retries=of_group.max_retries,
            dead_letters="none: dropped" if spec.broadcasting else f"%DLQ%{wrap(namespace, spec.group)}",
        )  # fmt: skip
    return app, arguments


async def _consume(app: App, arguments: argparse.Namespace) -> ExitCode:
    if arguments.child:  # its parent has the broker, where one is embedded
        return await _consume_there(app, arguments)
    async with embedded(app.settings.cluster, alone=True):
        return await _consume_there(app, arguments)


async def _consume_there(app: App, arguments: argparse.Namespace) -> ExitCode:
    from framework.net.task_tree import TaskTree
    from framework.net.wakeup import Wakeup
    from framework.runtime.reload import Reload
    from framework.runtime.report.telling import teller
    from framework.runtime.signals import draining
    from framework.services.supervise import supervise

    asked, tree, loop = Wakeup(), TaskTree(), asyncio.get_running_loop()
    lines = output.EventLines(_unheard)
    if arguments.json:
        app.on_event = lines.put
    reload = Reload(app, lambda: options.loaded(arguments).settings, options.files(arguments))
    with draining(
        lambda: loop.call_soon_threadsafe(asked.ring),
        reload=lambda: loop.call_soon_threadsafe(reload.ask),
        tell=teller(loop, app.snapshot),
    ):
        supervise(tree, "reload", reload.run, app.world.chance)
        tree.start(_stop_when(asked, app), name="stop")
        if arguments.until_idle:
            idle_ms = durations.to_ms(arguments.until_idle)
            tree.start(_once(lambda: app.idle_ms() >= idle_ms, asked.ring, IDLE_LOOK_SECONDS), name="idle")
        if arguments.length:
            loop.call_later(durations.to_ms(arguments.length) / 1000, asked.ring)
        if arguments.child:
            tree.start(_once(lambda: app.is_ready, _say_ready, IDLE_LOOK_SECONDS / 2), name="ready")
            # Handlers that never end take its places: it is drained, and its parent starts another.
            tree.start(_once(lambda: app.hanging, asked.ring, HANGING_LOOK_SECONDS), name="hanging")
            if app.settings.workers.is_recycled:
                tree.start(_watch_recycling(app), name="recycling")
            await _watch_parent(asked)
        try:
            await app.run()
        finally:
            await tree.close()
            lines.flush()
            output.say(output.stopped_event(app.counts) if arguments.json else output.drained_line(app.counts))
    if arguments.child and app.hanging:
        return ExitCode.HUNG
    return ExitCode.ABANDONED if app.counts.abandoned or app.counts.unconfirmed else ExitCode.CLEAN


def _unheard() -> None:
    """The reader of the events has gone. Consuming goes on; further events are counted, and lost."""
    import structlog

    structlog.get_logger().warning("events lost", reason="nobody reads stdout any more")


async def _once(is_so: Callable[[], object], act: Callable[[], object], look_seconds: float) -> None:
    """Look until it is so, then act: nothing rings when nothing happens, and the rest comes once a process."""
    while not is_so():  # noqa: ASYNC110
        await asyncio.sleep(look_seconds)
    act()


def _say_ready() -> None:
    """For the parent only: handlers run from here on."""
    output.say('{"event": "ready"}')


async def _watch_recycling(app: App) -> None:
    """Say it once when enough was handled, or so much memory is held; the parent asks us to end when it is our turn."""
    from framework.cli.recycling import reason_to_recycle

    while (reason := reason_to_recycle(app.counts, app.settings.workers)) is None:  # noqa: ASYNC110 - memory rings no bell
        await asyncio.sleep(RECYCLING_LOOK_SECONDS)
    output.say(json.dumps({"event": "recycle", "reason": reason}))


async def _stop_when(asked: Wakeup, app: App) -> None:
    await asked.wait()
    await app.stop()


async def _watch_parent(asked: Wakeup) -> None:
    """A parent holds our stdin open; when it is gone, however it went, we drain and end."""

    class Ending(asyncio.Protocol):
        def connection_lost(self, error: Exception | None) -> None:
            asked.ring()

    await asyncio.get_running_loop().connect_read_pipe(Ending, sys.stdin)


async def _with_broker(arguments: argparse.Namespace, plan: Plan) -> tuple[int, Totals]:
    from framework.cli.supervise import supervise

    try:
        cluster = options.loaded(arguments).settings.cluster
    except ConfigurationError:  # the children say what is wrong, and with --reload wait until it is fixed
        return await supervise(plan)
    async with embedded(cluster, alone=False):
        return await supervise(plan)


def _supervised(arguments: argparse.Namespace) -> int:
    from framework.cli.supervise import Plan
    from framework.cli.watch import watched_files

    options.set_up_logs(arguments)
    plan = Plan(
        options=options.for_child(arguments, is_json=arguments.json),
        workers=arguments.workers,
        length_ms=durations.to_ms(arguments.length) if arguments.length else None,
        may_end=bool(arguments.until_idle),
        files=watched_files(arguments) if arguments.reload else None,
        on_line=output.say,
    )
    code, totals = asyncio.run(_with_broker(arguments, plan))
    output.say(output.stopped_event(totals) if arguments.json else output.drained_line(totals))
    return code
