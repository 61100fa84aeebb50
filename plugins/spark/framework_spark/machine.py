"""What Spark needs of this machine, looked at before a JVM is started: its error would come late, and name no remedy.

It does not know the application's settings, nor what other machines have.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from framework_spark.mistakes import SparkMissing

JAVA, SPARK = 17, (4, 2)
"""The oldest that will do."""
LOOK_AT_PYTHON_S = 120.0  # a cold disk and a busy machine
DRIVER_NEEDS = ("pyspark", "pyarrow", "numpy")
CONNECT_NEEDS = ("grpc", "grpc_status", "pandas")
WORKERS_NEED = ("numpy", "pyarrow", "pyspark", "framework", "framework_spark.source")
_LOOK = """
import importlib, sys
print("%d.%d" % sys.version_info[:2])
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        print("no " + name + " (" + " ".join(str(error).split()) + ")")
"""
_INSTALL = "run pip install framework-app-spark (from a checkout: . ./plugins/spark)"


def packages_here(*, connect: bool) -> None:
    """SparkMissing where this Python lacks what the plugin needs, as after an installation without dependencies.

    `connect`: as a client of Spark Connect, too.
    """
    lacks = [name for name in DRIVER_NEEDS if find_spec(name) is None]
    if lacks:
        raise SparkMissing(f"{sys.executable} has no {', '.join(lacks)}; {_INSTALL}")
    lacks = [name for name in CONNECT_NEEDS if connect and find_spec(name) is None]
    if lacks:
        raise SparkMissing(
            f"plugins.settings.spark.remote: {sys.executable} has no {', '.join(lacks)}; run pip install "
            "'framework-app-spark[connect]' (from a checkout: . './plugins/spark[connect]')"
        )
    try:
        found = version("pyspark")
    except PackageNotFoundError:  # one that a platform put on the path
        return
    if _numbers(found) < SPARK:
        raise SparkMissing(f"{sys.executable} has pyspark {found}, and it takes {_dotted(SPARK)} or newer; {_INSTALL}")


def java_here() -> None:
    """SparkMissing where there is no Java, or one that is too old."""
    home = os.environ.get("JAVA_HOME", "")
    if home and not Path(home, "bin", "java").is_file():
        raise SparkMissing(f"Spark needs Java {JAVA} or newer, and JAVA_HOME={home} has no bin/java; mend or unset it")
    program = Path(home, "bin", "java") if home else shutil.which("java")
    if program is None:
        raise SparkMissing(
            f"Spark needs Java {JAVA} or newer, and there is no java on the PATH; install it, or set JAVA_HOME (or "
            "plugins.settings.spark.remote, a server of Spark Connect)"
        )
    found = _java_version(Path(program).resolve().parents[1] / "release")
    if found is not None and found < JAVA:
        where = f"JAVA_HOME={home}" if home else str(program)
        raise SparkMissing(
            f"Spark needs Java {JAVA} or newer, and {where} is Java {found}; set JAVA_HOME to a newer one"
        )


def spark_here() -> None:
    """SparkMissing where SPARK_HOME is another Spark than this pyspark, which would start it all the same."""
    home = os.environ.get("SPARK_HOME", "")
    if not home:
        return
    if not Path(home, "bin", "spark-submit").is_file():
        raise SparkMissing(f"SPARK_HOME={home} has no bin/spark-submit; unset it, and the Spark of pyspark is used")
    jars = sorted(Path(home, "jars").glob("spark-core_*.jar"))
    if not jars:  # a platform that keeps them elsewhere
        return
    import pyspark

    theirs = re.sub(r"spark-core_[\d.]+-", "", jars[0].stem)
    if _numbers(theirs) != _numbers(pyspark.__version__):
        raise SparkMissing(
            f"SPARK_HOME={home} is Spark {theirs}, and pyspark is {pyspark.__version__}: both must be one release; "
            "unset SPARK_HOME, and the Spark of pyspark is used"
        )


def lacking(program: str) -> list[str]:
    """What a Python lacks to be that of Spark's workers, by running it once."""
    try:
        looked = subprocess.run(  # noqa: S603  # the program that Spark would run, for the same user
            [program, "-c", _LOOK, *WORKERS_NEED], capture_output=True, text=True, check=False, timeout=LOOK_AT_PYTHON_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"it does not run ({error})"]
    said = looked.stdout.splitlines()
    if looked.returncode or not said:
        return [(looked.stderr.strip().splitlines() or [f"exit code {looked.returncode}"])[-1]]
    found, *lacks = said
    mine = ".".join(map(str, sys.version_info[:2]))
    # Spark refuses the first task with PYTHON_VERSION_MISMATCH.
    return [*([] if found == mine else [f"it is Python {found}, and the driver's is {mine}"]), *lacks]


def _java_version(release: Path) -> int | None:
    """The first number that matters: 8 of 1.8.0_402, 17 of 17.0.15. None where a Java does not say so."""
    try:
        found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(errors="replace"), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) if found else None


def _numbers(text: str) -> tuple[int, ...]:
    """The minor version: (4, 3) of 4.3.0."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
