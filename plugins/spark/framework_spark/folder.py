"""Folder: where a backfill writes, by Hadoop's file system: whatever Spark has for that URL. It knows no plan.

Python's own files would take `s3a://bucket/x` for a path below the current folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from py4j.java_gateway import is_instance_of

from framework.errors import StoreError, shorten
from framework_spark.causes import cause_of
from framework_spark.limit import is_connect
from framework_spark.mistakes import SparkMisused

# An object store then looks when the object is there whole (`If-None-Match: *`), and not before. Others don't know it.
_ONLY_IF_NEW = "fs.option.create.conditional.overwrite"


class Folder:
    """Names are relative to it. What the file system refuses is a StoreError."""

    def __init__(self, session: Any, text: str) -> None:
        if is_connect(session):
            raise SparkMisused(
                "backfill: a client of Spark Connect does not reach the server's file systems; use "
                "plugins.settings.spark.master"
            )
        gateway = session.sparkContext._gateway  # noqa: SLF001  # the only way to Hadoop's classes
        self._fs = gateway.jvm.org.apache.hadoop.fs
        try:
            path = self._fs.Path(text)
            files = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
            self._is_local = files.getUri().getScheme() == "file"
            if self._is_local and not path.toUri().getScheme():
                path = self._fs.Path(str(Path(text).absolute()))  # the JVM may have begun in another folder
            self._path = files.makeQualified(path)
        except Exception as error:
            raise SparkMisused(
                f"--into {shorten(text)}: Spark has no file system for it: {cause_of(error)}; write a path, "
                "file:///PATH or a URL that it has (spark.jars.packages in plugins.settings.spark.conf brings others, "
                "for s3a org.apache.hadoop:hadoop-aws)"
            ) from error
        if is_instance_of(gateway, files, "org.apache.hadoop.fs.ChecksumFileSystem"):
            files = files.getRawFileSystem()  # without checksums in files of their own, which a kill can part
        self._files = files

    def __str__(self) -> str:
        return str(self._path.toString())

    def at(self, name: str) -> str:
        """As Spark's writers take it."""
        return str(self._of(name).toString())

    # Looking

    def is_file(self) -> bool:
        with self._named("cannot be looked at"):
            return bool(self._files.exists(self._path) and self._files.getFileStatus(self._path).isFile())

    def has(self, name: str) -> bool:
        with self._named("cannot be looked at"):
            return bool(self._files.exists(self._of(name)))

    def names(self, name: str = "") -> list[str]:
        """What is in it, or in a folder of it; nothing where there is none."""
        path = self._of(name)
        with self._named("cannot be listed"):
            if not self._files.exists(path):
                return []
            return sorted(str(status.getPath().getName()) for status in self._files.listStatus(path))

    def read(self, name: str) -> str | None:
        """A small file's text; None where there is none."""
        path = self._of(name)
        with self._named(f"{name} cannot be read"):
            if not self._files.exists(path):
                return None
            stream = self._files.open(path)
            try:
                return bytes(stream.readAllBytes()).decode(errors="replace")
            finally:
                stream.close()

    def above(self, name: str) -> str | None:
        """The nearest folder above that has such a file or folder, links followed."""
        path = self._path
        if self._is_local:
            path = self._files.makeQualified(self._fs.Path(str(Path(self._local).resolve())))
        while (path := path.getParent()) is not None:
            with suppress(Exception):  # of a folder that we may not read; the target's own errors are told
                if self._files.exists(self._fs.Path(path, name)):
                    return str(path.toString())
        return None

    # Writing

    def create(self, name: str, text: str) -> bool:
        """Make a file that was not there; whether it is ours. Of several that try at once, one succeeds."""
        with self._named(f"{name} cannot be written"):
            if self._is_local:
                return self._create_here(Path(self._local, name), text)
            path = self._of(name)
            try:
                new = self._files.createFile(path).overwrite(False).recursive().opt(_ONLY_IF_NEW, True)  # noqa: FBT003  # Java
                stream = new.build()
                stream.write(text.encode())
                stream.close()
            except Exception:
                if not self._files.exists(path):
                    raise
                return self.read(name) == text
        return True

    def _create_here(self, path: Path, text: str) -> bool:
        """Hadoop's local file system looks first and then makes, so two could."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return self.read(str(path.relative_to(self._local))) == text
        try:
            with os.fdopen(descriptor, "w") as stream:
                stream.write(text)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        return True

    def put(self, name: str, text: str) -> None:
        """Make a file that is there whole or not at all."""
        new = self._of(f"{name}.new")
        with self._named(f"{name} cannot be written"):
            stream = self._files.create(new, True)  # noqa: FBT003  # Java's
            try:
                stream.write(text.encode())
            finally:
                stream.close()
        self.move(f"{name}.new", name)

    def move(self, name: str, to: str) -> None:
        """To where there is nothing yet: Hadoop would move it into a folder that is there."""
        with self._named(f"{to} cannot be made"):
            path = self._of(to)
            self._files.mkdirs(path.getParent())
            if self._files.exists(path) or not self._files.rename(self._of(name), path):
                raise OSError(f"{name} was not renamed")

    def remove(self, name: str) -> None:
        with self._named(f"{name} cannot be removed"):
            self._files.delete(self._of(name), True)  # noqa: FBT003  # Java's

    @property
    def _local(self) -> str:
        return str(self._path.toUri().getPath())

    def _of(self, name: str) -> Any:
        return self._fs.Path(self._path, name) if name else self._path

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            raise StoreError(
                f"{self}: {what}: {cause_of(error)}; what is done stays: mend that, and run the command again"
            ) from error
