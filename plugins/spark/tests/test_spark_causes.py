"""The error that a person needs is shown, whatever Spark wraps around it. The texts are Spark 4.3's own, shortened."""

from __future__ import annotations

import pytest
from framework_spark.causes import MOST, cause_of

LOST = "clicks@broker-a:0: offsets 2 to 4 are gone; option failOnDataLoss=false goes on without them"
WORKER = f"""An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/a/framework_spark/source.py", line 66, in read_piece
    raise DataLost(error) from error
framework_spark.survey.DataLost: {LOST}"""
PLANNED = f"""[PYTHON_DATA_SOURCE_ERROR] Failed to generate Python data source: Traceback (most recent call last):
  File "/a/framework_spark/survey.py", line 83, in bounds
    begins = self.at("startingOffsets", self._options.starting, queues)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
framework_spark.survey.DataLost: {LOST}
 SQLSTATE: 38000"""
STREAM = f"""[STREAM_FAILED] Query [id = 607b85fa] terminated with exception: [PYTHON_EXCEPTION] {WORKER}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 607b85fa, runId = dccf6c53]
Logical Plan:
WriteToMicroBatchDataSource noop-table
"""
JAVA = """An error occurred while calling o12.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2844)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
CHAINED = f"""Traceback (most recent call last):
  File "a.py", line 1, in <module>
KeyError: 'price'

During handling of the above exception, another exception occurred:

{WORKER}"""


@pytest.mark.parametrize("text", [WORKER, PLANNED, STREAM, CHAINED])
def test_of_pythons_errors_the_innermost_is_shown(text: str) -> None:
    assert f"DataLost: {LOST}" == cause_of(RuntimeError(text))


def test_of_the_jvms_errors_the_last_cause_is_shown() -> None:
    assert "IOException: No space left on device" == cause_of(RuntimeError(JAVA))


def test_which_call_of_the_jvm_failed_is_left_out() -> None:
    """As of Hadoop's own calls, whose errors have no cause behind them."""

    class Py4JJavaError(Exception):
        pass

    text = "An error occurred while calling o9.create.\n: java.io.IOException: Permission denied\n\tat a.b.C(C.java:1)"
    assert "IOException: Permission denied" == cause_of(Py4JJavaError(text))


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("price is missing"), "ValueError: price is missing"),
        (RuntimeError("[USER_RAISED_EXCEPTION] nope SQLSTATE: P0001"), "RuntimeError: [USER_RAISED_EXCEPTION] nope"),
        (ValueError("two\nlines"), "ValueError: two lines"),
        (RuntimeError("Traceback (most recent call last):\n"), "RuntimeError: Traceback (most recent call last):"),
        (ValueError(), "ValueError:"),
    ],
)
def test_what_spark_did_not_wrap_is_shown_as_it_is(error: Exception, shown: str) -> None:
    assert shown == cause_of(error)


def test_a_long_error_keeps_its_beginning() -> None:
    shown = cause_of(RuntimeError(WORKER + "x" * 5000))

    assert MOST == len(shown)
    assert shown.startswith(f"DataLost: {LOST}")


class Thrown:
    """As much of an exception of the JVM's as is asked for."""

    def __init__(self, name: str, words: str | None = None, cause: Thrown | None = None) -> None:
        self._name, self._words, self._cause = name, words, cause

    def getClass(self) -> Thrown:  # noqa: N802  # Java's names
        return self

    def getSuperclass(self) -> None:  # noqa: N802
        return None

    def getName(self) -> str:  # noqa: N802
        return self._name

    def getMessage(self) -> str | None:  # noqa: N802
        return self._words

    def getCause(self) -> Thrown | None:  # noqa: N802
        return self._cause

    def getStackTrace(self) -> list[str]:  # noqa: N802
        return ["a.Place.of(Place.scala:7)"]


def test_what_has_no_words_is_shown_where_spark_says_nothing_else() -> None:
    class Failed(RuntimeError):
        _origin = Thrown("x.Failed", "failed", Thrown("java.lang.InterruptedException"))

    silent = "[STREAM_FAILED] Query [id = 1] terminated with exception:  SQLSTATE: XXKST\n=== Streaming Query ==="

    assert "InterruptedException: at a.Place.of(Place.scala:7)" == cause_of(Failed(silent))
    assert "Failed: writing failed" == cause_of(Failed("writing failed"))
