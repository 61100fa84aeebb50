"""Consume with the handlers of an application.

The first SIGINT or SIGTERM drains: running handlers finish, offsets are committed, the groups are left. The second
exits at once. A broker that is down is retried forever, unless --wait-broker is given. When settings change on disk,
or on SIGHUP, the new values apply where that needs no restart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli import options, output, quick_start
from framework.cli.embedded import embedded
from framework.cli.exit_codes import ExitCode
from framework.cli.greeting import banner, quiet
from framework.cli.live.sockets import controlled, mounted, of_parent
from framework.errors import ConfigurationError, ConfigurationMistakes, Findings
from framework.model import durations
from framework.model.namespaces import wrap
from framework.runtime.logs import streams

if TYPE_CHECKING:
    from framework.cli.output import Totals
    from framework.cli.processes.fork_server import ForkServer
    from framework.cli.processes.last_limit import LastLimit
    from framework.cli.processes.supervise import Plan
    from framework.net.wakeup import Wakeup
    from framework.runtime.app import App
    from framework.services.call.notes import Notes
    from framework.services.pool.run import MessageCounts
    from framework.settings.schema import WorkersSettings

EXAMPLES = """\
examples:
  framework-app run shop --name-server 10.0.0.5:9876  against a cluster
  framework-app run shop --workers 4                  four processes
  framework-app run shop --only billing --set consumers.billing.concurrency=2
  framework-app run shop --until-idle --json          handle what is there, then exit; for scripts
  framework-app run shop --wait-broker 30s            exit with 69 if no broker answers; for CI
"""
IDLE_LOOK_SECONDS = 0.1
READY_LOOK_SECONDS = 0.05
HANGING_LOOK_SECONDS = 1.0
HANDLERS_SHOWN, PLACE_MAX = 5, 3
RECYCLING_LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 1.0
"""A stop that is over sooner needs no word."""
_PAGES = Path("/proc/self/statm")


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_application(parser)
    options.add_running(parser)
    parser.add_argument("--json", action="store_true", help="JSON events on stdout, one per line")
    parser.add_argument("--reload", action="store_true", help="restart when a file of the application changes")
    parser.add_argument("--child-number", type=int, help=argparse.SUPPRESS)  # which of several children
    parser.add_argument("--control", help=argparse.SUPPRESS)  # of the parent; its children's are beside it
    parser.add_argument(
        "--plain-errors", action="store_true", help=argparse.SUPPRESS
    )  # its parent alone reads the JSON
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)  # a parent watches: say when ready
    parser.add_argument("--tells", type=int, metavar="FD", help=argparse.SUPPRESS)  # where a child says it
    parser.add_argument("--notes", type=int, metavar="FD", help=argparse.SUPPRESS)  # memory that its parent shares
    parser.add_argument("--in-dev", action="store_true", help=argparse.SUPPRESS)  # the parent shows a banner
    parser.add_argument("--restarted", action="store_true", help=argparse.SUPPRESS)  # at each edit, by its parent


def execute(arguments: argparse.Namespace) -> int:
    arguments.shared = None
    if arguments.tells is not None:
        streams.send_results(arguments.tells)
        arguments.shared = _shared(arguments.notes)
    elif arguments.json:
        streams.reserve_stdout()
    fork_server = _fork_server() if arguments.workers > 1 else None  # before there is anything else to inherit
    try:
        is_supervised = arguments.workers > 1 or arguments.reload or _is_recycled(arguments)
        prepared = None if is_supervised else _prepared(arguments)
    except ConfigurationError as mistake:
        raise _with_others(arguments, mistake) from mistake
    quick_start.end()
    return _supervised(arguments, fork_server) if prepared is None else _alone(*prepared)


def _alone(app: App, arguments: argparse.Namespace) -> int:
    """Consume in this process, which ends whatever its handlers have left running."""
    limit = _last_limit(app, arguments)
    with asyncio.Runner() as runner:
        try:
            code = runner.run(_consume(app, arguments, limit))
        except BaseException:
            limit.finished(ExitCode.FAILED)
            raise
        limit.finished(code)
        if arguments.shared is not None:
            arguments.shared.over()
    return code


def _last_limit(app: App, arguments: argparse.Namespace) -> LastLimit:
    from framework.cli.processes.last_limit import LastLimit
    from framework.core.limits import stop_ms

    def limits_ms() -> tuple[int, int]:
        drain_ms = app.stopping.drain_ms
        return drain_ms, stop_ms(drain_ms, app.settings.cluster.request_timeout)

    def places() -> list[str]:
        return [
            f"{each['group']} {each['topic']} {each['message_id']}: {' < '.join(each['stack'][:PLACE_MAX])}"
            for each in app.stopping.running()[:HANDLERS_SHOWN]
        ]

    def farewell() -> None:
        left = sum(each["messages"] for each in app.stopping.running() if not each["is_given_up"])
        totals = output.Totals.of(app.counts)
        totals.abandoned = max(totals.abandoned, left)
        output.say(output.stopped_event(totals) if arguments.json or arguments.child else output.drained_line(totals))

    def word() -> None:
        if arguments.child:
            output.say(json.dumps({"event": "ending"}))

    def leave(code: int) -> None:
        if arguments.shared is not None:
            arguments.shared.over()
        streams.finish()
        os._exit(code)

    return LastLimit(app.world.clock, limits_ms, places=places, farewell=farewell, word=word, leave=leave)


def _shared(descriptor: int) -> Notes:
    from framework.services.call.notes import Notes

    notes = Notes(descriptor)
    os.close(descriptor)
    return notes


def _fork_server() -> ForkServer | None:
    from framework.cli.processes.fork_server import ForkServer

    return ForkServer.begin()


def _with_others(arguments: argparse.Namespace, mistake: ConfigurationError) -> ConfigurationError:
    """The mistake together with all that `check` finds: a start that says one at a time is repeated for each."""
    import structlog

    from framework.cli.commands.check import look

    findings = Findings()
    findings.note(mistake)
    with structlog.testing.capture_logs():  # what is loaded now was logged the first time
        settings, _, _ = look(arguments, findings)
    return settings.hidden.masked(ConfigurationMistakes(findings.mistakes))


def _is_recycled(arguments: argparse.Namespace) -> bool:
    """Whether processes are replaced in time: then even one of them has a parent."""
    return not arguments.child and options.loaded(arguments).settings.workers.is_recycled


def _prepared(arguments: argparse.Namespace) -> tuple[App, argparse.Namespace]:
    """Everything that can be wrong with settings, handlers and plugins comes out here, before any connection."""
    from framework.runtime.app import App
    from framework.runtime.engine_groups import strange_groups
    from framework.runtime.logs import setup

    if arguments.child and arguments.name_server == options.FROM_PARENT:
        # By now everything is imported: the broker came up in the parent meanwhile.
        arguments.name_server = sys.stdin.readline().strip()
    application = options.loaded(arguments)
    settings, number = controlled(application.settings, arguments), arguments.child_number
    processors = quiet.processors(worker=number, in_dev=arguments.in_dev and not arguments.debug)
    setup.configure(settings, first=processors)
    consumers, elsewhere = options.chosen(arguments, settings)
    app = App(
        settings, consumers, worker=number or 0, elsewhere=elsewhere, is_alone=not arguments.child,
        notes=arguments.shared,
    )  # fmt: skip
    strange = Findings()
    strange.note(*strange_groups(settings, consumers, app.plugins, elsewhere))
    strange.check()
    if app.is_alone:
        app.mounted = mounted(settings, settings.app.control)
    app.about["config"] = str(application.file.absolute()) if application.file is not None else ""
    app.log_processors = processors
    setup.configure(settings, first=processors)  # by now the plugins have said which of their settings are secret
    if arguments.child:
        output.say(json.dumps(banner.facts(app, "configured", first_message=arguments.in_dev)))
    if not number:  # its siblings would say the same
        _log_settings(application, app)
    return app, arguments


def _log_settings(application: options.AppOptions, app: App) -> None:
    import structlog

    from framework.runtime.plans.collect import max_retries_of

    log, settings = structlog.get_logger(), app.settings
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
            concurrency=of_group.concurrency, max_retries=max_retries_of(of_group, spec),
            dead_letters="none: dropped" if spec.broadcasting else f"%DLQ%{wrap(namespace, spec.group)}",
        )  # fmt: skip


async def _consume(app: App, arguments: argparse.Namespace, limit: LastLimit) -> ExitCode:
    if arguments.child:  # its parent has the broker, where one is embedded
        return await _consume_there(app, arguments, limit)
    async with embedded(app.settings.cluster, alone=True):
        return await _consume_there(app, arguments, limit)


async def _consume_there(app: App, arguments: argparse.Namespace, limit: LastLimit) -> ExitCode:
    from framework.net.task_tree import TaskTree
    from framework.net.wakeup import Wakeup
    from framework.runtime.reload import Reload
    from framework.runtime.report.stacks import teller
    from framework.runtime.signals import draining
    from framework.services.supervise import supervise

    asked, tree, loop = Wakeup(), TaskTree(), asyncio.get_running_loop()
    lines = output.EventLines(_unheard)
    is_json, number = arguments.json or arguments.child, arguments.child_number
    if arguments.json:
        app.on_event = lines.put if number is None else lambda event: lines.put({**event, "worker": number})
    reload = Reload(app, lambda: controlled(options.loaded(arguments).settings, arguments), options.files(arguments))
    if app.world.watchman is not None:
        limit.begin(app.world.watchman, loop)

    def drain() -> None:
        limit.ask()  # here, and not on the loop, which a handler may hold
        loop.call_soon_threadsafe(asked.ring)

    with draining(
        drain,
        reload=lambda: loop.call_soon_threadsafe(reload.ask),
        tell=teller(loop, app.snapshot),
    ):
        if not arguments.restarted:  # else an edit that is wrong would be said twice
            supervise(tree, "reload", reload.run, app.world.chance)
        tree.start(_stop_when(asked, app, limit, is_alone=not arguments.child), name="stop")
        if arguments.until_idle:
            idle_ms = durations.to_ms(arguments.until_idle)
            tree.start(_once(lambda: app.idle_ms() >= idle_ms, asked.ring, IDLE_LOOK_SECONDS), name="idle")
        if arguments.length:
            loop.call_later(durations.to_ms(arguments.length) / 1000, asked.ring)
        tree.start(
            _once(
                lambda: app.is_ready,
                lambda: _say_ready(app, is_child=arguments.child, is_json=arguments.json),
                READY_LOOK_SECONDS,
            ),
            name="ready",
        )
        if arguments.child:
            # Handlers that never end take its places: it is drained, and its parent starts another.
            tree.start(_once(lambda: app.stopping.hanging, asked.ring, HANGING_LOOK_SECONDS), name="hanging")
            if app.settings.workers.is_recycled:
                tree.start(_watch_recycling(app), name="recycling")
            await _watch_parent(asked)
        try:
            await app.run()
        finally:
            await tree.close()
            lines.flush()
            output.say(output.stopped_event(app.counts) if is_json else output.drained_line(app.counts))
    if arguments.child and app.stopping.hanging:
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


def _say_ready(app: App, *, is_child: bool, is_json: bool) -> None:
    """Every group has joined: what is sent from here on is handled."""
    facts = banner.facts(app, "ready")
    if is_child:
        output.say(json.dumps(facts))  # to the parent, which waits for all of them
    else:
        output.say_ready(facts, banner.ready_line(facts), is_json=is_json)


async def _watch_recycling(app: App) -> None:
    """Say it once when enough was handled, or so much memory is held; the parent asks us to end when it is our turn."""
    while (reason := reason_to_recycle(app.counts, app.settings.workers)) is None:  # noqa: ASYNC110 - memory rings no bell
        await asyncio.sleep(RECYCLING_LOOK_SECONDS)
    output.say(json.dumps({"event": "recycle", "reason": reason}))


def reason_to_recycle(counts: MessageCounts, limits: WorkersSettings) -> str | None:
    """Why this process should be replaced; None while it need not."""
    ended = counts.handled + counts.retried + counts.dead_lettered + counts.dropped
    if limits.max_messages is not None and ended >= limits.max_messages:
        return f"{ended} messages"
    if limits.max_memory is not None and (held := memory_bytes()) >= limits.max_memory:
        return f"{held >> 20} MiB of memory"
    return None


def memory_bytes() -> int:
    """What this process holds now; where the system does not say, the most that it ever held."""
    try:
        return int(_PAGES.read_text().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


async def _stop_when(asked: Wakeup, app: App, limit: LastLimit, *, is_alone: bool) -> None:
    import structlog

    def say() -> None:
        structlog.get_logger().info("handlers awaited", processes=1, reason="a second signal exits at once")

    await asked.wait()
    limit.ask()
    word = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, say) if is_alone else None
    try:
        await app.stop()
    finally:
        if word is not None:
            word.cancel()


async def _watch_parent(asked: Wakeup) -> None:
    """A parent holds our stdin open; when it is gone, however it went, we drain and end."""

    class Ending(asyncio.Protocol):
        def connection_lost(self, error: Exception | None) -> None:
            asked.ring()

    await asyncio.get_running_loop().connect_read_pipe(Ending, sys.stdin)


async def _with_broker(arguments: argparse.Namespace, plan: Plan) -> tuple[int, Totals]:
    from framework.cli.processes.supervise import supervise

    try:
        cluster = options.loaded(arguments).settings.cluster
    except ConfigurationError:  # the children say what is wrong, and with --reload wait until it is fixed
        return await supervise(plan)
    async with embedded(cluster, alone=False):
        return await supervise(plan)


def _supervised(arguments: argparse.Namespace, fork_server: ForkServer | None) -> int:
    from framework.cli.processes.supervise import Plan
    from framework.cli.watch import watched_files

    configured: list[output.Event] = []

    def ready(facts: output.Event) -> None:
        output.say_ready(facts, banner.ready_line(facts), is_json=arguments.json)

    options.set_up_logs(arguments)
    place = of_parent(arguments)
    plan = Plan(
        control=place,
        options=[*options.for_child(arguments, is_json=arguments.json), *(["--restarted"] if arguments.reload else [])],
        workers=arguments.workers,
        fork_server=fork_server,
        length_ms=durations.to_ms(arguments.length) if arguments.length else None,
        limits_ms=options.stop_limits(arguments),
        may_end=bool(arguments.until_idle),
        files=watched_files(arguments) if arguments.reload else None,
        on_line=output.say,
        on_configured=configured.append,
        on_ready=ready,
    )
    code, totals = asyncio.run(_with_broker(arguments, plan))
    if not configured and code not in {ExitCode.CLEAN, ExitCode.ABANDONED}:
        return code  # nothing was fit to run, and the errors say why
    output.say(output.stopped_event(totals) if arguments.json else output.drained_line(totals))
    return code
