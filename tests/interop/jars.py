"""Where Java comes from: the JDK on this machine, RocketMQ's jars, and our own programs compiled against them.

Everything is kept in one cache folder and made once: jars a version, classes a hash of their sources. A folder appears
by one rename when it is whole, so neither a broken download nor two test runs at once can leave a half of one. Which
processes run from it is not known here.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

VERSION = "5.5.0"
# With 2.3.3 or later comes client 5.3.1 or 5.3.2, whose request() times out as soon as the request is sent, whichever
# broker it asks (apache/rocketmq issue 9319). 2.3.1 has 5.3.0.
SPRING, SPRING_VERSION = "rocketmq-spring-boot-starter", "2.3.1"
MODULES = ("namesrv", "broker", "proxy", "tools", "client")
CACHE_VARIABLE = "FRAMEWORK_INTEROP_CACHE"
SOURCES = Path(__file__).parent / "java"

# RocketMQ unmaps files and frees direct buffers by reflection, which Java 16 and newer refuse unless told.
OPENINGS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)


_NOTHING_ELSE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


class InteropError(Exception):
    """Something that the tests against real programs need is missing, or did not come up."""


def cache() -> Path:
    """The folder of everything that is made once; `FRAMEWORK_INTEROP_CACHE` puts it elsewhere."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "framework-app"


def program(name: str) -> str:
    """The path of a program of the JDK: below JAVA_HOME when that is set, else from PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin") if home else shutil.which(name)
    if found is None:
        raise InteropError(f"{name} was not found; install a JDK 17, or set JAVA_HOME to one")
    return found


def missing() -> str | None:
    """Why programs in Java cannot run here, in words for a person, or None. The first call fills the cache."""
    try:
        for name in ("java", "javac"):
            program(name)
        resolve()
    except InteropError as error:
        return str(error).partition("\n")[0]
    return None


def resolve() -> Path:
    """The folder with the jars of RocketMQ and all they need; Maven brings them the first time (100 MB)."""
    return brought(f"rocketmq-{VERSION}", [f"org.apache.rocketmq:rocketmq-{module}:{VERSION}" for module in MODULES])


def brought(name: str, modules: Sequence[str], *, alone: bool = False) -> Path:
    """The folder `name` with these modules (`group:artifact:version`), by Maven the first time.

    All that they need is there, too, or they are `alone`.
    """
    target = cache() / name
    with made_once(target) as scratch:
        if scratch is not None:
            pom = scratch / "pom.xml"
            pom.write_text(_pom(modules, _NOTHING_ELSE if alone else ""))
            copying = ["dependency:copy-dependencies", f"-DoutputDirectory={scratch / 'made'}"]
            _maven(name, ["-f", str(pom), *copying])
    return target


def resolve_spring() -> Path:
    """The folder with rocketmq-spring and all it needs, its own RocketMQ client among it (50 MB)."""
    return brought(f"rocketmq-spring-{SPRING_VERSION}", [f"org.apache.rocketmq:{SPRING}:{SPRING_VERSION}"])


def compiled(sources: Path = SOURCES, jars: Path | None = None) -> str:
    """The class path that runs the programs of a folder of sources: their classes, then RocketMQ's jars, or these."""
    jars = resolve() if jars is None else jars
    files = sorted(sources.glob("*.java"))
    digest = hashlib.sha256(jars.name.encode())
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    target = cache() / "classes" / digest.hexdigest()[:16]
    with made_once(target) as scratch:
        if scratch is not None:
            _javac(files, jars, scratch / "made")
    return f"{target}:{jars}/*"


def java(main: str, *arguments: str, classes: str, flags: Sequence[str] = ()) -> list[str]:
    """The command line that runs a main class."""
    return [program("java"), *OPENINGS, *flags, "-cp", classes, main, *arguments]


@contextlib.contextmanager
def made_once(target: Path) -> Iterator[Path | None]:
    """Hand out a scratch folder whose child `made` becomes `target`, or None where somebody has made it already."""
    if target.is_dir():
        yield None
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_name(f".{target.name}.lock")), tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        if target.is_dir():
            yield None
            return
        yield Path(scratch)
        Path(scratch, "made").rename(target)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock among processes; the system lets go of it when its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _pom(modules: Sequence[str], exclusions: str) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{exclusions}</dependency>"
        for group, artifact, version in (module.split(":") for module in modules)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>interop</groupId><artifactId>interop</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


@functools.cache  # A registry that is down is asked once a test run, not once a test.
def _maven_trouble(name: str, arguments: tuple[str, ...]) -> str | None:
    maven = shutil.which("mvn")
    if maven is None:
        return f"mvn was not found; install Maven 3, or let {CACHE_VARIABLE} name a cache that is filled"
    command = [maven, "-q", "-B", *arguments, "-DincludeScope=runtime"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return f"Maven could not bring {name}\n{done.stdout}{done.stderr}" if done.returncode else None


def _maven(name: str, arguments: list[str]) -> None:
    if trouble := _maven_trouble(name, tuple(arguments)):
        raise InteropError(trouble)


def _javac(files: Sequence[Path], jars: Path, target: Path) -> None:
    command = [program("javac"), "-nowarn", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", str(target)]
    done = subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise InteropError(f"javac refused the programs in {files[0].parent}\n{done.stderr}")
