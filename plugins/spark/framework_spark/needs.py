"""Needs: which columns a query takes of those that its sources build, by Spark's own plan; and the hint that says so.

Spark 4.3 prunes no columns of a source in Python, but it plans as if: what it does not need ends at a projection right
above the source. That is all that is looked at, so that a plan of another shape has no hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from framework_spark.limit import is_connect
from framework_spark.mistakes import SparkMisused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SOURCE, _NAME = "DataSourceV2ScanRelation", "rocketmq"
_LEAST = "offset bigint"
"""Of a query that needs no column, such as a count: some column has to be built."""


def column_hints(frame: DataFrame) -> list[str]:
    """One hint for each `load()` whose columns the query does not all need, with the `.schema(...)` to write.

    Empty where there is nothing to leave out, and for what is cached. Nothing is read. Classic sessions, batch queries.
    """
    if is_connect(frame.sparkSession):
        raise SparkMisused(
            "column_hints: a client of Spark Connect sees no plan; ask where the session is a classic one"
        )
    if frame.isStreaming:
        raise SparkMisused("column_hints: give it a batch query; read the same columns with spark.read")
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001  # pyspark shows no plan, here and below
    plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    needed: dict[int, set[str]] = {}
    columns: dict[int, dict[str, str]] = {}
    for root in (plan, *_each(plan.subqueriesAll())):
        for relation, names in _sources(root):
            key = jvm.System.identityHashCode(relation.relation().table())
            columns[key] = {each.name(): each.dataType().catalogString() for each in _each(relation.output())}
            needed.setdefault(key, set()).update(columns[key] if names is None else names)
    return [_hint(columns[key], names) for key, names in needed.items() if len(names) < len(columns[key])]


def _hint(columns: dict[str, str], needed: set[str]) -> str:
    fields = ", ".join(f"{_name(name)} {kind}" for name, kind in columns.items() if name in needed) or _LEAST
    return f'this query needs {len(needed)} of {len(columns)} columns: .schema("{fields}") builds no others'


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else f"`{name.replace('`', '``')}`"


def _sources(node: Any, names: set[str] | None = None) -> Iterator[tuple[Any, set[str] | None]]:
    """Every source of ours under a node, with the names that what is above takes of it; None for all."""
    kind = node.getClass().getSimpleName()
    if kind == _SOURCE:
        if node.relation().name() == _NAME:
            yield node, names
        return
    if kind == "Project":
        names = _references(node)
    elif kind == "Filter" and names is not None:
        names = names | _references(node)
    else:
        names = None
    for child in _each(node.children()):
        yield from _sources(child, names)


def _references(node: Any) -> set[str]:
    return {each.name() for each in _each(node.references().toSeq())}


def _each(found: Any) -> Iterator[Any]:
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()
