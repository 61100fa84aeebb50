"""A Spark session for tests: one a run, since a JVM takes seconds to start."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.lacking import lacking


def spark_python(folder: Path) -> Path:
    """This interpreter for Spark's processes.

    They take the installed pyspark: Spark puts a zip file first, which is compiled anew at each start (some seconds of
    processor time). And those that Spark waits for say so before they import anything.
    """
    script = folder / "python"
    early = Path(__file__).with_name("early_python.py")
    script.write_text(
        "#!/bin/sh\n"
        "export PYTHONPATH=$(printf %s \"$PYTHONPATH\" | sed 's#[^:]*pyspark.zip:*##')\n"
        f'if [ -n "$PYTHON_WORKER_FACTORY_PORT" ]; then exec {sys.executable} {early} "$@"; fi\n'
        f'exec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)
    return script


@contextmanager
def spark_session(folder: Path, extra: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Small and quiet, with workers of this interpreter. A quick compiler and one thread for garbage: half the CPU."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        lacking("Spark needs Java 17")
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # a test's few rows are through before code for them is made
        "spark.sql.codegen.wholeStage": "false",
        "spark.python.authenticate.socketTimeout": "120s",  # of a busy machine
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.checkpointLocation": str(folder / "checkpoints"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2,3]").appName("tests")
    for name, value in {**settings, **(extra or {})}.items():
        builder = builder.config(name, value)
    with patch.dict(os.environ, PYSPARK_PYTHON=str(spark_python(folder)), SPARK_LOCAL_IP="127.0.0.1"):
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()
