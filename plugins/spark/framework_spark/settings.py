"""`plugins.settings.spark`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, model_validator


class GroupSettings(BaseModel):
    """How the handler of one group is run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Literal["driver", "source"] = "driver"
    """`driver`: the framework consumes and hands batches to Spark. `source`: a streaming query reads by itself."""
    checkpoint: str = ""
    """Where the query of `mode: source` keeps its offsets: a path or URL that the driver and all executors reach."""
    options: Mapping[str, str] = {}
    """Options of the source beside those that the handler gives, such as `failOnDataLoss`."""

    @model_validator(mode="after")
    def _fits(self) -> GroupSettings:
        if self.mode == "source" and not self.checkpoint:
            raise ValueError("mode: source needs checkpoint, where its query keeps its offsets")
        if self.mode == "driver" and (self.checkpoint or self.options):
            raise ValueError("checkpoint and options have a meaning in mode: source only; remove them")
        return self


class SparkSettings(BaseModel):
    """`plugins.settings.spark`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    master: str = "local[2,4]"
    """Where jobs run; `local[2,4]` tries a task four times, a plain `local[2]` once."""
    app_name: str = "framework-app"
    """What Spark's UI calls it."""
    conf: Mapping[str, str] = {}
    """Settings of the session, such as `spark.driver.memory`. Ours are FAIR scheduling and two shuffle partitions."""
    groups: Mapping[str, GroupSettings] = {}
    """How handlers of a group are run; those that are not named, in `mode: driver`."""
