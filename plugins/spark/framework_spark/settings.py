"""`plugins.settings.spark`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from framework.settings.units import Duration, Size

_REMOTE = re.compile(r"sc://[^/:;]+(:\d+)?(/.*)?")
_MASTER = re.compile(r"local|local\[(\d+|\*)( *, *\d+)?\]|local-cluster\[.+\]|yarn|\w+://.+")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class GroupSettings(BaseModel):
    """How the handler of one group is run."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    mode: Literal["driver", "source"] = "driver"
    """driver: the framework consumes and passes batches to Spark. source: a streaming query reads the topic itself."""
    checkpoint: str = ""
    """Where the query of `mode: source` stores its offsets: a path or URL that driver and executors can reach."""
    options: Mapping[str, str] = {}
    """More options of the source, such as `failOnDataLoss`."""
    job_timeout: Annotated[Duration, Field(ge=1)] | None = None
    """Cancel the handler's Spark jobs after this time; the batch is retried. Empty: no limit."""
    batch_bytes: Annotated[Size, Field(ge=1)] | None = None
    """`mode: driver` only: the most bytes of bodies in one frame; a larger batch is run in parts. Empty: no limit."""

    @model_validator(mode="after")
    def _fits(self) -> GroupSettings:
        if self.mode == "source" and not self.checkpoint:
            raise ValueError("mode: source needs checkpoint, where its query keeps its offsets")
        if self.mode == "driver" and (self.checkpoint or self.options):
            raise ValueError("checkpoint and options have a meaning in mode: source only; remove them")
        if self.mode == "source" and self.batch_bytes is not None:
            raise ValueError("batch_bytes has a meaning in mode: driver only; remove it, or lower the handler's batch=")
        return self


class SparkSettings(BaseModel):
    """`plugins.settings.spark`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    master: str = "local[2,4]"
    """Where jobs run. `local[2,4]` tries a task four times, `local[2]` once."""
    remote: str = ""
    """`sc://HOST:15002`: a Spark Connect server in place of `master`. Needs `framework-app-spark[connect]`."""
    session: str = ""
    """`module:function` that returns a session of your own, in place of `master`."""
    app_name: str = "framework-app"
    """The application's name in Spark's UI."""
    conf: Mapping[str, str] = {}
    """Spark settings, such as `spark.driver.memory`. Defaults here: FAIR scheduling, two shuffle partitions."""
    groups: Mapping[str, GroupSettings] = {}
    """How the handlers of each group run. Groups that are not named here run in `mode: driver`."""

    @field_validator("conf", mode="before")
    @classmethod
    def _with_dots(cls, given: Any) -> Any:
        """`--set plugins.settings.spark.conf.spark.driver.memory=3g` is keys in keys; of two, the later counts."""
        return dict(_dotted(given)) if isinstance(given, Mapping) else given

    @model_validator(mode="after")
    def _fits(self) -> SparkSettings:
        if self.master and not _MASTER.fullmatch(self.master):
            raise ValueError(
                f"master: {self.master!r}: write local[2,4], spark://HOST:7077, yarn or k8s://https://HOST:PORT"
            )
        if self.remote and not _REMOTE.fullmatch(self.remote):
            raise ValueError(f"remote: {self.remote!r}: write sc://HOST:PORT")
        if self.session and not _FUNCTION.fullmatch(self.session):
            raise ValueError(f"session: {self.session!r}: write module:function")
        chosen = [name for name in ("master", "remote", "session") if name in self.model_fields_set]
        if len([name for name in chosen if getattr(self, name)]) > 1:
            raise ValueError(f"{' and '.join(chosen)}: give one of them")
        for group, each in self.groups.items():
            if self.remote and each.mode == "source":
                raise ValueError(
                    f"groups.{group}: mode: source wants a driver in this process, and the functions of a query of "
                    "Spark Connect run in the server; use mode: driver, or master"
                )
        return self


def _dotted(given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
