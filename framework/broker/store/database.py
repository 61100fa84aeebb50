"""Opening the store's database: the file, its owner, its settings. Does not know what the tables mean.

Two connections to a file: one writes, one reads what is committed, so that a pull never waits for a disk. A store in
memory has one connection for both, and so has a simulation, which hands in its own and decides what a crash leaves.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import structlog

from framework import private_files
from framework.broker.store import seals
from framework.broker.store.trouble import RESTORE, explained
from framework.errors import StoreError

log = structlog.get_logger()

OpenDatabase = Callable[[], sqlite3.Connection]

APPLICATION_ID = 0x524D_5142  # "RMQB": a SQLite file of anybody else is refused
SCHEMA_VERSION = 8
_SCHEMAS = {  # what each version adds
    1: "schema.sql", 2: "schema_2.sql", 3: "schema_3.sql", 4: "schema_4.sql", 5: "schema_5.sql",
    6: "schema_6.sql", 7: "schema_7.sql", 8: "schema_8.sql",
}  # fmt: skip
_SEALED_VERSION = 5
FILE_NAME = "broker.db"
LOCK_NAME = "broker.lock"
# No other broker has the folder; a shell that has the file open must not stop the loop for long.
_BUSY_S = 0.2
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_WAYS_MAX, _FORMATS_MAX = 2, 4
# 16 MiB of pages between checkpoints: each costs a sync of the file beside the log's own.
_CHECKPOINT_PAGES = 4000


class Database:
    """The open connections, and the lock that keeps a second process out."""

    def __init__(
        self,
        writing: sqlite3.Connection,
        reading: sqlite3.Connection,
        *,
        place: str,
        commits_inline: bool,
        lock: int | None,
    ) -> None:
        self.writing = writing
        self.reading = reading
        self.place = place
        """Where it lies, for people."""
        self.commits_inline = commits_inline
        """Whether a commit touches no disk and may run on the event loop itself."""
        self._lock = lock

    def close(self) -> None:
        """Close both connections; the last one to close a file folds its write-ahead log into it."""
        if self.reading is not self.writing:
            self.reading.close()
        self.writing.close()
        self.unlock()

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def open_memory() -> Database:
    """A store in memory; it ends with the process."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _prepare(connection, "memory")
    return Database(connection, connection, place="memory", commits_inline=True, lock=None)


def open_given(open_database: OpenDatabase) -> Database:
    """A store on a connection of the caller's own, which may hold what an earlier broker committed."""
    connection = open_database()
    connection.isolation_level = None
    _prepare(connection, "the given database")
    return Database(connection, connection, place="the given database", commits_inline=False, lock=None)


def open_folder(folder: Path, *, is_relaxed: bool = False) -> Database:
    """The store of a data folder, made where there is none. A folder that is taken, foreign or damaged: StoreError.

    `is_relaxed`: commits are not synced one by one, so a power cut may undo the last of them.
    """
    _check_folder(folder)
    path = folder / FILE_NAME
    with ExitStack() as undo:
        lock = lock_folder(folder)
        undo.callback(os.close, lock)
        try:
            _check_content(path, lock)
            _close_to_others(path)
            # Made here first, so that no other user ever reads it: SQLite gives its log and index the file's own mode.
            _check_file(private_files.open_file(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW), path)
            writing = undo.enter_context(closing(_connect(path)))
            reading = undo.enter_context(closing(_connect(path)))
            _prepare(writing, str(path), is_relaxed=is_relaxed)
            _set_up(reading)
            _mark(lock)
        except (OSError, sqlite3.Error) as error:
            # Said before anything is closed: files that have run out are noticed by another try.
            raise StoreError(f"data folder {folder}: {FILE_NAME} cannot be opened: {explained(error)}") from error
        except UnicodeDecodeError as error:  # SQLite quotes what is damaged
            raise StoreError(f"{path}: not a readable database; {RESTORE}") from error
        undo.pop_all()
    return Database(writing, reading, place=str(path), commits_inline=False, lock=lock)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_S)


def _check_folder(folder: Path) -> None:
    try:
        private_files.make_folder(folder)
        found = folder.lstat()
    except OSError as error:
        raise StoreError(f"data folder {folder}: {explained(error)}; name another folder") from error
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"data folder {folder}: a symbolic link or no folder; name the folder itself")
    if found.st_uid != os.geteuid():
        raise StoreError(f"data folder {folder}: is owned by user {found.st_uid}; name a folder that this user owns")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)
    if stat.S_IMODE(found.st_mode) & 0o022:
        _say_open("data folder permissions tightened", folder, found.st_mode, 0o700)


def _say_open(event: str, path: Path, before: int, now: int) -> None:
    log.warning(
        event, path=str(path), mode=f"{stat.S_IMODE(before):04o}", now=f"{now:04o}",
        remedy="other users of this machine could change it until now; if that matters, restore it from a copy",
    )  # fmt: skip


def _close_to_others(path: Path) -> None:
    """What others may read or write of the database until now, they may no longer."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        file = path.with_name(name)
        try:
            found = file.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISREG(found.st_mode) and stat.S_IMODE(found.st_mode) & 0o077:
            file.chmod(0o600)
            _say_open("database permissions tightened", file, found.st_mode, 0o600)


def _check_content(path: Path, lock: int) -> None:
    """Refuse a file that is empty or gone where there were messages: SQLite would start an empty database."""
    size = path.stat().st_size if path.exists() else None
    log_of_writes = path.with_name(f"{path.name}-wal")
    has_log = log_of_writes.exists() and log_of_writes.stat().st_size > 0
    if not size and (has_log or os.fstat(lock).st_size):
        what = "is not there" if size is None else "is empty"
        raise StoreError(
            f"{path}: {what}, but a broker kept messages here; restore the folder from a copy, "
            f"or delete it to start empty"
        )


def _mark(lock: int) -> None:
    """Note beside the database that there is one, for a start that finds none."""
    if not os.fstat(lock).st_size:
        os.write(lock, b"a broker keeps messages beside this file\n")
        os.fsync(lock)


def lock_folder(folder: Path) -> int:
    """Take the folder. The system lets go of the lock when the process ends, however it ends."""
    path = folder / LOCK_NAME
    try:
        lock = private_files.open_file(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except OSError as error:
        raise StoreError(f"data folder {folder}: {explained(error)}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise StoreError(f"data folder {folder} is in use by another broker; stop it or name another folder") from error
    return lock


def _check_file(file: int, path: Path) -> None:
    """Refuse what is no database; SQLite itself takes a short file of anything for an empty one."""
    try:
        begin = os.pread(file, _HEADER_BYTES, 0)
    finally:
        os.close(file)
    if len(begin) == _HEADER_BYTES and begin.startswith(_MAGIC):
        # SQLite takes other ways of writing for a read-only file, and another format for a newer SQLite's.
        is_whole = max(begin[18:20]) <= _WAYS_MAX and int.from_bytes(begin[44:48]) <= _FORMATS_MAX
    else:
        is_whole = not begin
    if not is_whole:
        raise StoreError(f"{path}: not a readable database; {RESTORE}, or name another folder")


def _set_up(connection: sqlite3.Connection, *, is_relaxed: bool = False) -> None:
    """What every connection needs, before anything is read through it."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.execute("PRAGMA trusted_schema = OFF")
    # FULL: a commit is not done before it is on the disk. NORMAL would lose commits at a power cut.
    connection.execute(f"PRAGMA synchronous = {'NORMAL' if is_relaxed else 'FULL'}")
    connection.execute("PRAGMA cache_size = -32768")


def _prepare(connection: sqlite3.Connection, place: str, *, is_relaxed: bool = False) -> None:
    """Check that the database is ours, of a version we know; bring an empty or older one up to date."""
    try:
        _set_up(connection, is_relaxed=is_relaxed)
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
        wrong_bits = ((application ^ APPLICATION_ID) & 0xFFFF_FFFF).bit_count()
        wrong_bits += ((version ^ SCHEMA_VERSION) & 0xFFFF_FFFF).bit_count()
        if not is_empty and wrong_bits == 1 and _is_ours(connection):
            raise StoreError(
                f"{place}: damaged: one bit of its header is wrong, which says application {application:#x} and "
                f"schema {version} while its tables are ours of schema {SCHEMA_VERSION}; {RESTORE}"
            )
        if not is_empty and application != APPLICATION_ID:
            raise StoreError(f"{place}: a SQLite file, but not a broker's; name another folder")
        if version > SCHEMA_VERSION:
            raise StoreError(
                f"{place}: written by a newer version (schema {version}, ours is {SCHEMA_VERSION}); upgrade"
            )
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute("PRAGMA journal_size_limit = 67108864").fetchone()
        connection.execute(_CHECKPOINT).fetchone()
        if version < SCHEMA_VERSION:
            _fill(connection, since=version)
        for mended in seals.check(connection):
            log.error(
                "bit flip repaired",
                place=place, table=mended.table, row=mended.row, remedy="check this machine's disk and memory",
            )  # fmt: skip
    except ValueError as error:
        raise StoreError(f"{place}: damaged ({error}); {RESTORE}") from error
    except sqlite3.Error as error:
        raise StoreError(f"{place}: {_what(error)} ({explained(error)})") from error


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Whether the tables are this version's, whatever the header says: bits of that have no check."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        _fill(fresh, since=0)
        return _tables(connection) == _tables(fresh)


def _tables(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    return connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name").fetchall()


def _what(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", None) or ""
    return "not a readable database" if name in {"SQLITE_CORRUPT", "SQLITE_NOTADB"} else "cannot be used"


def _fill(connection: sqlite3.Connection, *, since: int) -> None:
    """Make the tables of all later versions, in one transaction."""
    folder = Path(__file__).parent
    schema = "\n".join(
        (folder / name).read_text(encoding="utf-8") for version, name in _SCHEMAS.items() if version > since
    )
    connection.executescript(f"BEGIN IMMEDIATE;\n{schema}")
    if since < _SEALED_VERSION:  # rows that have a check keep it: what is damaged stays so
        seals.seal_all(connection)
    for stamp in _STAMPS:
        connection.execute(stamp)
    connection.execute("COMMIT")


# Pragmas take no bound parameters; these are built from constants, once.
_CHECKPOINT = f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}"
_STAMPS = (f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {SCHEMA_VERSION}")
