"""Run the built-in broker and name server, for development and tests: one port answers as both.

Topics and groups are created on first use. With --data, messages are kept (SQLite; a send is acknowledged after the
commit); with --memory, they are gone at exit. It listens on 127.0.0.1; another address (--bind) needs --auth.

  framework-app broker export FILE --data DIR [--topic T]   write topics and their messages to a file
  framework-app broker import FILE --data DIR               read them into another store
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from framework import private_files
from framework.cli import broker_plugins, options, output, quick_start, transfer
from framework.cli.exit_codes import ExitCode
from framework.errors import StoreError, shorten
from framework.mistakes import AddressWrong, UsageWrong, UsersWrong
from framework.model import durations
from framework.settings import broker_limits

if TYPE_CHECKING:
    from framework.broker.rules import User
    from framework.broker.settings import BrokerSettings
    from framework.net.tls import TlsOptions
    from framework.ports import Clock, World

KEY_BYTES = 16
# New objects between two looks for cycles, of which requests leave none. What is here at the start is not looked at.
# With Python's 700 a twelfth of a send's processor time went into looking.
GARBAGE_OBJECTS = 10_000
_QUIET_MS = 60_000
# Handlers that no request has asked for yet are imported one by one once the broker serves: its start does not wait for
# them, and a request that comes when files have run out does not need one.
REST_AFTER_SECONDS = 0.5
REST_STEP_SECONDS = 0.01


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", nargs="?", choices=("serve", "export", "import"), default="serve",
        help="export: topics of --data into FILE; import: FILE into --data; default: serve",
    )  # fmt: skip
    parser.add_argument(
        "file", nargs="?", metavar="FILE", type=Path, help="the file that export writes and import reads"
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--data", metavar="DIR", type=Path, help="keep everything in this folder")
    where.add_argument("--memory", action="store_true", help="keep everything in memory")
    _add_exporting(parser)
    _add_serving(parser)


def _add_exporting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", metavar="T", action="append", help="export: this topic only; repeatable")


def _add_serving(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", metavar="P", type=options.number(0, 65_535), default=0, help="the port (default 0: any free one)"
    )
    parser.add_argument(
        "--brokers",
        metavar="N",
        type=options.number(1, 16),
        default=1,
        help="number of logical brokers; the others take the following ports",
    )
    parser.add_argument("--bind", metavar="A", default="127.0.0.1", help="the address to listen on")
    parser.add_argument(
        "--auth", metavar="FILE", type=Path, help="keys that clients sign with, or users and rules; created if missing"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="accept TLS only, with this certificate (PEM)")
    parser.add_argument(
        "--tls-key", metavar="FILE", default="", help="the certificate's key (default: in the same file)"
    )
    parser.add_argument(
        "--tls-ca", metavar="FILE", default="", help="accept only clients with a certificate of this authority"
    )
    parser.add_argument(
        "--delay-levels", metavar='"1s 5s ..."', type=options.reads(_delays), help="instead of RocketMQ's eighteen"
    )
    parser.add_argument(
        "--admission", metavar="10s", type=options.reads(durations.to_ms),
        help="a new member gets queues after this long (default 0s); a member that keeps leaving waits up to 5m",
    )  # fmt: skip
    parser.add_argument(
        "--durability", choices=("full", "relaxed"), default="full",
        help="relaxed: acknowledge before the disk has the message; faster, but a power cut may lose the last ones",
    )  # fmt: skip
    parser.add_argument(
        "--retention", metavar="48h", type=options.reads(_age), help="delete older messages (default 48h)"
    )
    parser.add_argument(
        "--disk-limits", metavar='"75 85 90"', type=options.reads(_limits),
        help="percent of the disk: delete old messages at once, delete the oldest, refuse sends",
    )  # fmt: skip
    parser.add_argument(
        "--strict-sql", action="store_true", help="refuse SQL92 filters that RocketMQ accepts and misreads"
    )
    parser.add_argument(
        "--limit", metavar="NAME=VALUE", type=options.reads(broker_limits.limit), action="append", default=[],
        help=f"change a limit; repeatable: {', '.join(broker_limits.LIMITS)}",
    )  # fmt: skip
    broker_plugins.add_option(parser, "--plugin")
    parser.add_argument(
        "--ready-file", metavar="FILE", type=Path, help="write the ready line to this file once it listens"
    )


def _delays(text: str) -> tuple[int, ...]:
    delays = tuple(durations.to_ms(part) for part in text.split())
    if not delays:
        raise ValueError("write durations with spaces between, such as '1s 5s 10s'")
    return delays


def _age(text: str) -> int:
    age_ms = durations.to_ms(text)
    if age_ms < 1000:
        raise ValueError(f"{text}: messages are kept for a second at least")
    return age_ms


def _limits(text: str) -> tuple[float, ...]:
    try:
        limits = tuple(float(part) / 100 for part in text.replace("%", " ").split())
    except ValueError:
        limits = ()
    if len(limits) != 3 or not 0 < limits[0] <= limits[1] <= limits[2] <= 1:
        raise ValueError(f"{shorten(text)}: write three rising percentages, such as '75 85 90'")
    return limits


def execute(arguments: argparse.Namespace) -> int:
    from framework.runtime.logs import setup
    from framework.runtime.report.stacks import teller  # noqa: F401 - the second is used once files may have run out

    setup.begin("debug" if arguments.debug else "info")
    action, file, folder = arguments.action, arguments.file, arguments.data
    if action == "serve":
        _refuse(arguments, _add_exporting, "goes with `broker export FILE`")
        if file is not None:
            raise UsageWrong(f"{shorten(str(file))}: a broker that serves takes no FILE; its folder is --data DIR")
        return _serve_until_asked(arguments)
    _refuse(arguments, _add_serving, f"broker {action} serves no clients; remove it")
    if action == "import":
        _refuse(arguments, _add_exporting, "chooses what is exported; an import takes the whole file")
    if folder is None:
        raise UsageWrong(f"broker {action}: needs --data DIR; a store in memory ends with its process")
    if file is None:
        raise UsageWrong(f"broker {action}: needs a FILE: framework-app broker {action} FILE")
    if action == "import":
        return transfer.bring_in(file, folder)
    return transfer.take_out(file, folder, frozenset(arguments.topic or ()))


def _refuse(arguments: argparse.Namespace, add: Callable[[argparse.ArgumentParser], None], reason: str) -> None:
    """An option that means nothing to this action is an error and not noise."""
    others = argparse.ArgumentParser()
    add(others)
    for name, usual in vars(others.parse_args([])).items():
        if getattr(arguments, name) != usual:
            raise UsageWrong(f"--{name.replace('_', '-')}: {reason}")


def _serve_until_asked(arguments: argparse.Namespace) -> int:
    last = arguments.port + arguments.brokers - 1
    if last > 65_535:
        raise UsageWrong(f"--brokers {arguments.brokers}: the last one's port would be {last}; lower --port")
    try:
        with asyncio.Runner() as runner:
            runner.get_loop()  # before there is anything to run: it opens files
            return runner.run(_serve(arguments))
    except OSError as error:
        from framework.net.real_world import is_of_no_address

        if is_of_no_address(error):
            reason = "no address of this machine; 127.0.0.1 and 0.0.0.0 always are"
            raise AddressWrong(f"--bind {shorten(arguments.bind)}: {reason}") from error
        raise


async def _serve(arguments: argparse.Namespace) -> ExitCode:
    from framework.broker.handlers import load_rest
    from framework.broker.server import Broker
    from framework.net.real_world import real_world
    from framework.runtime.report.stacks import teller
    from framework.runtime.signals import draining

    world = real_world()
    broker = Broker(
        world,
        data=arguments.data,
        host=arguments.bind,
        port=arguments.port,
        brokers=arguments.brokers,
        auth=_users(arguments.auth, world) if arguments.auth else None,
        auth_place=f"--auth {arguments.auth}",
        tls=_tls(arguments),
        settings=_settings(arguments),
        handlers=broker_plugins.handlers_of(arguments.plugin, world.clock),
    )
    asked, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.set_exception_handler(_out_of_files(world.clock))
    with draining(lambda: loop.call_soon_threadsafe(asked.set), tell=teller(loop)):
        await broker.start()
        quick_start.end()
        gc.set_threshold(GARBAGE_OBJECTS)
        try:
            named = ",".join(f"{name}@{address}" for name, address in broker.brokers.items())
            line = f"broker: ready namesrv={broker.address} brokers={named}"
            if arguments.ready_file:
                _put(arguments.ready_file, f"{line}\n")
            output.say(line)
            loop.call_later(REST_AFTER_SECONDS, _load, loop, load_rest())
            await asked.wait()
        finally:
            await broker.stop()
    return ExitCode.CLEAN


def _load(loop: asyncio.AbstractEventLoop, rest: Iterator[None]) -> None:
    try:
        next(rest)
    except StopIteration:
        return
    except (ImportError, OSError):  # files have run out: the requests' own tries are answered with the reason
        return
    loop.call_later(REST_STEP_SECONDS, _load, loop, rest)


def _out_of_files(clock: Clock) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """One line a minute where connections cannot be taken for want of files; asyncio tries on, and says each time."""
    import structlog

    quiet_ms = 0

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal quiet_ms
        error = context.get("exception")
        if isinstance(error, ValueError) and "_start_serving" in context["message"]:
            return  # its next try, after the port was closed
        if not isinstance(error, OSError) or error.errno not in {errno.EMFILE, errno.ENFILE}:
            loop.default_exception_handler(context)
        elif clock.monotonic_ms() >= quiet_ms:
            quiet_ms = clock.monotonic_ms() + _QUIET_MS
            remedy = "raise the limit (ulimit -n)"
            structlog.get_logger().error("connections not accepted", remedy=remedy, reason=error.strerror)

    return handle


def _tls(arguments: argparse.Namespace) -> TlsOptions | None:
    from framework.net.tls import TlsOptions

    if not arguments.tls_cert:
        if arguments.tls_key or arguments.tls_ca:
            raise UsageWrong("--tls-key and --tls-ca need a certificate: --tls-cert FILE")
        return None
    return TlsOptions(cert_file=arguments.tls_cert, key_file=arguments.tls_key, ca_file=arguments.tls_ca)


def _settings(arguments: argparse.Namespace) -> BrokerSettings:
    """What the command line chose; the defaults for all else."""
    import structlog

    from framework.broker.settings import BrokerSettings

    chosen: dict[str, Any] = {"is_relaxed": arguments.durability == "relaxed", **dict(arguments.limit)}
    if arguments.delay_levels:
        chosen["delays_ms"] = arguments.delay_levels
    chosen["is_sql_strict"] = arguments.strict_sql
    if arguments.admission:
        chosen["admission_ms"] = arguments.admission
    if arguments.retention:
        chosen["kept_ms"] = arguments.retention
    if arguments.disk_limits:
        names = ("disk_clean_ratio", "disk_forced_ratio", "disk_full_ratio")
        chosen.update(zip(names, arguments.disk_limits, strict=True))
    if chosen["is_relaxed"] and arguments.data:
        structlog.get_logger().warning("durability relaxed", reason="a power cut may lose acknowledged messages")
    return BrokerSettings(**chosen)


def _put(path: Path, text: str) -> None:
    """Whole or not at all: a script that polls for the file reads it the moment it is there."""
    if path.exists() and not path.is_file():  # a device or a pipe would be replaced by a file
        raise StoreError(
            f"--ready-file {shorten(str(path))}: it is there and is no file; name a file that may be replaced"
        )
    draft = path.with_name(f"{path.name}.new")
    try:
        private_files.make_file(draft)
        with open(draft, "w", encoding="utf-8") as stream:
            stream.write(text)
        draft.replace(path)
    except OSError as error:
        raise StoreError(f"--ready-file {shorten(str(path))}: {error.strerror}") from error


def _users(path: Path, world: World) -> tuple[User, ...]:
    """Those that the file names, or one who may do everything: our own clients read the same file as theirs."""
    from framework.broker.rules import User
    from framework.broker.users import users_in
    from framework.settings.sources import read_credentials, read_private

    if not path.exists():
        _make_keys(path, world)
    document = read_private(path)
    if "users" in document.values:
        return users_in(document.values, document.places, str(path))
    document = read_credentials(path)
    access_key, secret_key = document.values.get("access_key"), document.values.get("secret_key")
    if not access_key or not secret_key:
        raise UsersWrong(f"--auth {shorten(str(path))}: needs access_key and secret_key", place=str(path))
    return (User(access_key, secret_key, is_super=True),)


def _make_keys(path: Path, world: World) -> None:
    token = world.chance.token
    text = f"access_key: box-{token(4).hex()}\nsecret_key: {token(KEY_BYTES).hex()}\n"
    try:
        # Never readable by others, not even for the moment between making and chmod.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise StoreError(f"--auth {shorten(str(path))} cannot be made: {error.strerror}") from None
    with open(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
