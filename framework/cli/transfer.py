"""`framework-app broker export` and `import`: files, progress bars and last lines around `broker/transfer.py`.

Both need a folder that no broker has open. An export appears under its name when it is complete, and only its owner may
read it.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from framework.cli import output
from framework.cli.exit_codes import ExitCode
from framework.cli.progress import ProgressLine
from framework.errors import FrameworkError, RecordDamaged, StoreError

if TYPE_CHECKING:
    from framework.broker.store.store import Store
    from framework.broker.transfer import Incoming, TransferCounts

_GROUP = 500


def take_out(file: Path, folder: Path, only: frozenset[str]) -> ExitCode:
    """Topics of the folder, into a new file."""
    from framework.broker import transfer
    from framework.broker.store.database import open_folder

    if not folder.is_dir():
        raise StoreError(f"data folder {folder}: there is none")
    draft = file.with_name(f"{file.name}.new")
    progress = ProgressLine("exporting")
    try:
        draft.unlink(missing_ok=True)  # what a killed export left, with whatever mode it had
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as stream, closing(open_folder(folder)) as database:
            counts = transfer.export(database, stream, only=only, advance=progress.advance)
        draft.replace(file)
    except RecordDamaged as error:
        raise StoreError(f"{error.reason}; --topic exports the others") from error
    except OSError as error:
        raise StoreError(f"{file}: {error.strerror or error}") from error
    finally:
        progress.end()
        draft.unlink(missing_ok=True)
    output.say(_summary(counts))
    return ExitCode.CLEAN


def _summary(counts: TransferCounts) -> str:
    line = f"exported: topics={counts.topics} messages={counts.messages}"
    if waiting := sum(counts.left_out.values()):
        line += f" left_out={waiting} (on the schedule of delays, where a delivered message stays until it is too old)"
    return line


def bring_in(path: Path, folder: Path) -> ExitCode:
    """Everything of a file, behind what the folder has."""
    from framework.broker import transfer

    progress = ProgressLine("importing")
    total = transfer.check(path)
    try:
        topics, messages = asyncio.run(_import(path, folder, total, progress))
    finally:
        progress.end()
    output.say(f"imported: topics={topics} messages={messages}")
    return ExitCode.CLEAN


async def _import(path: Path, folder: Path, total: int, progress: ProgressLine) -> tuple[int, int]:
    from framework.broker.store.database import open_folder
    from framework.broker.store.store import Store
    from framework.broker.store.topics import TopicTable, load_topics
    from framework.broker.transfer import ExportSection, read
    from framework.net.real_world import real_world

    world, loop = real_world(), asyncio.get_running_loop()
    store = Store(open_folder(folder), world.clock, world.workers, loop.call_soon, disk=world.files.usage)
    tables: dict[str, TopicTable] = {}
    topics = messages = 0
    group: list[Incoming] = []
    try:
        with path.open("rb") as stream:
            for each in read(stream, str(path)):
                if isinstance(each, ExportSection):
                    if each.broker not in tables:
                        tables[each.broker] = load_topics(store.database.writing, each.broker)
                        store.writer.attach(tables[each.broker])
                    if each.topic.name not in tables[each.broker]:
                        tables[each.broker].put(each.topic.name, each.topic)
                    topics += 1
                    continue
                group.append(each)
                if len(group) == _GROUP:
                    messages += await _store(store, group)
                    group = []
                    progress.advance(messages, total)
        messages += await _store(store, group)
    finally:
        store.close()
    return topics, messages


async def _store(store: Store, group: list[Incoming]) -> int:
    """Write some messages, and wait until they are on disk."""
    from framework.broker.store.writer import Transaction

    done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def change(transaction: Transaction) -> int:
        for each in group:
            transaction.append(each.broker, each.topic, each.number, each.data, each.tag, each.key_hashes)
        return len(group)

    def told(count: int, error: FrameworkError | None) -> None:
        if error is None:
            done.set_result(count)
        else:
            done.set_exception(error)

    store.writer.submit(change, told)
    return await done
