"""docs/spark.md: its examples run, and its tables name every option and column."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from framework_spark import options
from framework_spark.schema import SCHEMA
from framework_spark.sink import TYPES

from framework import Message
from framework.reading import Reader
from tests.reading.threads import ThreadBox

TEXT = (Path(__file__).parents[3] / "docs" / "spark.md").read_text()


@pytest.mark.parametrize("name", sorted({*options.BATCH, *options.STREAM, *options.SINK, *SCHEMA.fieldNames(), *TYPES}))
def test_everything_has_its_place_in_the_page(name: str) -> None:
    assert f"`{name}`" in TEXT


@pytest.mark.timeout(600)
@pytest.mark.xdist_group("spark")
def test_the_examples_run(spark: Any, box: ThreadBox, reader: Reader, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    batch, stream = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    box.send("orders", [Message("orders", f"m{n}", tags="red" if n % 2 else "blue") for n in range(6)], queue=0)
    names: dict[str, Any] = {
        "spark": spark, "name_servers": box.address, "checkpoint": str(tmp_path / "checkpoint")
    }  # fmt: skip

    exec(batch, names)
    assert ["m1", "m3", "m5"] == [row.body for row in names["red"].collect()]

    for attempt in range(3):
        try:
            exec(stream, names)
            break
        except StreamingQueryException as error:
            # Spark gives a source's process ten seconds to start, which a busy machine exceeds: start again.
            if "failed to connect back" not in str(error) or attempt == 2:
                raise
    assert names["query"].exception() is None
    assert 6 == sum(reader.max_offset(queue) for queue in reader.queues("paid"))
