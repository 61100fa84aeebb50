"""`--py-files`: workers whose Python has numpy, pyarrow and pyspark alone, and gets the rest from Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from framework import Message
from tests.reading.threads import thread_box

ROOT = Path(__file__).parents[3]
THEIRS = ("numpy", "numpy.libs", "pyarrow", "pyspark", "py4j")
APP = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
options = {"nameServers": sys.argv[1], "topic": "orders"}
print("batch", spark.read.format("rocketmq").options(**options).load().count())
stream = spark.readStream.format("rocketmq").options(startingOffsets="earliest", **options).load()
query = stream.writeStream.format("memory").queryName("read").option("checkpointLocation", sys.argv[2])
query = query.trigger(availableNow=True).start()
query.awaitTermination()
print("stream", spark.table("read").count())
spark.stop()
"""


def place_of(name: str) -> Path:
    """The folder of a package."""
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def site_packages() -> Path:
    return place_of("pyspark").parent


def bare_python(folder: Path) -> Path:
    """This interpreter with the packages of the machine, and none of ours."""
    (folder / "site").mkdir()
    site = site_packages()
    for name in THEIRS:
        if (site / name).exists():
            (folder / "site" / name).symlink_to(site / name)
    script = folder / "python"
    paths = '$(printf %s "$PYTHONPATH" | sed "s#[^:]*pyspark.zip:*##")'
    script.write_text(f'#!/bin/sh\nexport PYTHONPATH="{folder / "site"}:{paths}"\nexec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return script


def zipped(folder: Path) -> list[Path]:
    """Each package as its wheel holds it."""
    places = [ROOT / "framework", ROOT / "plugins/spark/framework_spark", ROOT / "plugins/spark/pyspark_rocketmq"]
    places += [place_of(name) for name in ("structlog", "pluggy")]
    found = []
    for place in places:
        found.append(folder / f"{place.name}.zip")
        with zipfile.ZipFile(found[-1], "w") as file:
            for path in place.rglob("*.py"):
                file.write(path, path.relative_to(place.parent))
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("spark")
def test_the_package_reaches_workers_as_py_files(tmp_path: Path) -> None:
    """`make slow PART=py_files`: a batch and a stream, by spark-submit, without registration."""
    files = zipped(tmp_path)
    app = tmp_path / "app.py"
    app.write_text(APP)
    python = bare_python(tmp_path)
    refused = subprocess.run([python, "-c", "import framework_spark"], check=False, capture_output=True)
    assert refused.returncode, "else nothing is shown"
    with thread_box(brokers=1) as box:
        box.send("orders", [Message("orders", f"m{n}") for n in range(5)], queue=0)
        submit = site_packages() / "pyspark" / "bin" / "spark-submit"
        done = subprocess.run(
            [
                submit, "--master", "local[2]", "--py-files", ",".join(map(str, files)),
                "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1",
                "--conf", "spark.python.authenticate.socketTimeout=120s", app, box.address, tmp_path / "checkpoint",
            ],
            env={
                **os.environ, "PYTHONPATH": ":".join(map(str, files)), "PYSPARK_PYTHON": str(python),
                "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
            },
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip

    lines = done.stdout.splitlines()
    assert ["batch 5", "stream 5"] == [line for line in lines if line.startswith(("batch", "stream"))], done.stderr[
        -3000:
    ]
