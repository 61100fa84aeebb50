"""RocketMQ as a source and a sink of Spark. Spark enters through `datasource.py`, users by what is named here."""

from typing import TYPE_CHECKING, Any

from framework_spark.splitting import side_effect_free

if TYPE_CHECKING:
    from framework_spark.connection import cluster_of
    from framework_spark.needs import column_hints
    from framework_spark.reading import read, read_stream
    from framework_spark.registry import SchemaRegistry, payload, schema_id
    from framework_spark.watching import Progress, ProgressListener, progress, reason

__all__ = [
    "Progress", "ProgressListener", "SchemaRegistry", "cluster_of", "column_hints", "payload", "progress", "read",
    "read_stream", "reason", "schema_id", "side_effect_free",
]  # fmt: skip

_PLACES = {
    "Progress": "watching", "ProgressListener": "watching", "SchemaRegistry": "registry", "cluster_of": "connection",
    "column_hints": "needs", "payload": "registry", "progress": "watching", "read": "reading",
    "read_stream": "reading", "reason": "watching", "schema_id": "registry",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imported when it is asked for, since it needs pyspark, and `run`, which loads the plugin, does not."""
    if name in _PLACES:
        from importlib import import_module

        return getattr(import_module(f"framework_spark.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
