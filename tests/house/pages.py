"""The reference pages, as the sources have them: `python -m tests.house.pages` writes them, a house test compares them.

What a setting or a name means stands where it is defined, and nowhere else; here it is only laid out.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from annotated_types import Ge, Le
from framework_audit.plugin import AuditSettings
from framework_otel.settings import OtelSettings
from framework_outbox.settings import OutboxSettings
from framework_spark.settings import SparkSettings
from pydantic import BaseModel
from pydantic.fields import FieldInfo

import framework
from framework.catalogue.pages import content
from framework.settings import units
from framework.settings.consumers import ConsumerSettings
from framework.settings.explain import spelled
from framework.settings.fields import OnEdit, on_edit
from framework.settings.models import models_below, one_line
from framework.settings.schema import AppSettings
from tests.house.box_page import BOX, box_page
from tests.house.options_page import OPTIONS, options_page

ROOT = Path(__file__).parents[2]
SETTINGS, PYTHON = ROOT / "docs" / "settings.md", ROOT / "docs" / "python.md"
LOGS, ERRORS = ROOT / "docs" / "logs.md", ROOT / "docs" / "errors.md"

SETTINGS_HEAD = """\
# Settings

Every key of `framework-app.yaml`, generated from `framework/settings/schema.py` and `consumers.py`.

**Sources.** Each overrides the ones before it:

1. the defaults below
2. the file: `--config`, else `$FRAMEWORK_APP_CONFIG`, else `./framework-app.yaml`
3. `--overlay` files, in their order
4. environment variables: `FRAMEWORK_APP__CONSUMERS__BILLING__CONCURRENCY=4`
5. the command line: `--set consumers.billing.concurrency=4`; also where a key has dots:
   `--set logging.levels.sqlalchemy.engine=warning`, `--set plugins.settings.spark.conf.spark.executor.memory=2g`

**Values.** Durations and sizes have a unit: `500ms`, `30s`, `15m`, `1h30m`; `512KiB`, `64MiB`.
`${env:NAME}` takes a value from the environment.
A path in a file is relative to that file, also in `app.handlers`. In variables and options it is relative to the
working directory. `~` is the home directory. Modules are imported by name.

**Checks.** `framework-app config explain` shows every value and where it was written.
`framework-app check` reports all errors, with file and line.

**Changes while running.** The files are watched, and SIGHUP reads them at once. In `dev`, and with `--reload`, each
edit restarts the application instead. What an edit does:

| changes | effect of an edit |
|---|---|
| live | acts within a second |
| restart | is logged, and takes effect at the next start |
| guarded | is refused, with everything else in that edit, if it opens this door or brings other code |
"""
PYTHON_HEAD = """\
# Python names

Every name of `from framework import ...`, generated from the sources.
How to use them: [handlers](handlers.md), [sending](producing.md), [ordering](ordering.md) and
[reliability](reliability.md).
"""
LOGS_HEAD = """\
# Log events

Every event that the framework and its plugins log: the first text of a line, such as `queue stalled`.
Generated from `framework/catalogue/events.md`, which tests hold against the sources.

- **error** needs a person, **warning** is degraded, **info** is a change or a recovery, **debug** is per message or per
  retry.
- Lines at warning and error have the field `id`, which never changes: `framework-app explain FA-A101` prints the row.
- A lasting state is logged when it starts and when it ends. Repeated failures of one kind are logged three times a
  minute (dead letters: 100 times); the rest is one line, `EVENT: more`, with `count`, `within_s` and the newest
  example. `--debug` logs each.
- **A broker that is away** is one line for all groups, `not connected`, with the cause; then one a minute, `heartbeat
  not accepted`, with all brokers that are away and since when; then `connected`, with how long it was. What follows
  from it (a lease, a route, a pull that failed) is debug meanwhile.
- **`app started`** comes when a broker has taken this member's heartbeat. Until then no group begins, no `app_started`
  is called, and `/ready` is 503; SIGTERM ends the wait. A group whose topics are all on brokers that are away is
  [not ready](operate/metrics.md#probes) either.
- With `--workers` each line of a worker has its number, `worker`. `dev` leaves out the info lines of a plain start and
  stop, and those of retries: its banner and its line per message say the same. `dev --debug` logs them.
- `queue` is `TOPIC@BROKER:NUMBER`, numbers end in their unit (`_ms`), and `reason` says why. Lines that a handler
  writes also carry its message: see [handlers](handlers.md#what-a-handler-returns).
"""
ERRORS_HEAD = """\
# Errors

Every error, generated from `framework/catalogue/errors.md`. An error ends in its id: `error: ... [FA-S001]`. With
`--json` it is an object on stderr: `error`, `id`, `place`. `framework-app explain FA-S001` prints its page,
`framework-app explain` lists all. An id never changes, and none is used again. [Log events](logs.md) have ids, too.

| letter | area |
|---|---|
| A | the application, and calls of `App` and `Producer` |
| B | the built-in broker, folders and ports |
| C | the cluster: connections, answers, topics, groups |
| H | handlers, and what is declared beside them |
| K | the plugin spark |
| M | messages and their bodies |
| N, Q | connections, consuming: log events only |
| O | the plugin outbox |
| P | plugins |
| S | settings |
| U | the command line |
| X | unforeseen errors |
"""
PLUGINS: dict[str, type[BaseModel]] = {
    "audit": AuditSettings,
    "otel": OtelSettings,
    "outbox": OutboxSettings,
    "spark": SparkSettings,
}
CONSTANTS = {
    name: getattr(import_module(module), name)
    for module, names in {
        "framework.model.subscription": ("EVERYTHING",),
        "framework.client.producer": ("RETRIES", "TIMEOUT", "COMPRESS_ABOVE"),
    }.items()
    for name in names
}
KINDS = {
    "Declaring": (
        "consumer", "Consumer", "Retry", "publishes", "replies", "resource", "transaction_check", "TransactionState",
    ),
    "What a handler gets": ("Message", "Delivery", "MessageQueue"),
    "What a handler returns": (
        "Ack", "RetryLater", "DeadLetter", "Drop", "Suspend", "Commit", "Rollback", "BatchFailed", "Extend",
    ),
    "Running": ("App", "Producer", "SyncProducer", "Publisher", "Credentials", "TlsOptions", "Lots", "SendResult"),
    "Errors": (
        "FrameworkError", "ConfigurationError", "Forked", "BrokerUnreachable", "RequestTimedOut", "Refused",
        "PartlySent", "BodyUndecodable", "BodyUnavailable", "StoreError",
    ),
}  # fmt: skip


def settings_page() -> str:
    parts = [SETTINGS_HEAD]
    for name, field in AppSettings.model_fields.items():
        kind = ConsumerSettings if name == "consumers" else field.annotation
        assert isinstance(kind, type)
        assert issubclass(kind, BaseModel)
        title = "consumers.GROUP" if name == "consumers" else name
        intro = field.description or "" if name != "consumers" else (
            "How each group runs. A group that is not named here has the defaults."
        )  # fmt: skip
        parts.append(f"## `{title}`\n\n{one_line(intro)}\n\n| key | default | changes | meaning |\n|---|---|---|---|")
        parts.append("\n".join(_rows(kind, (title,))) + "\n")
    for name, model in PLUGINS.items():
        title = f"plugins.settings.{name}"
        where = f"For [plugins/{name}](../plugins/{name}/README.md)."
        parts.append(f"## `{title}`\n\n{where}\n\n| key | default | changes | meaning |\n|---|---|---|---|")
        parts.append("\n".join(_rows(model, (title,))) + "\n")
    return "\n".join(parts)


def _rows(model: type[BaseModel], path: tuple[str, ...]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind, here = field.annotation, (*path, name)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _rows(kind, here)
            continue
        key = ".".join(here[1:])
        default = spelled(field.get_default(call_default_factory=True), here, field)
        shown = f"`{default}`" if default not in {"", '""', "null", "none"} or name == "progress" else "none"
        yield f"| `{key}` | {shown} | {_change(field)} | {_cell(field.description or '')}{_range(field, here)} |"
        for inner in models_below(model) if path[0].startswith("plugins.settings.") else ():
            if inner is not model and inner in get_args(kind):  # a mapping's own keys lead to its values' model
                yield from _rows(inner, (*here, "NAME"))


def _range(field: FieldInfo, path: tuple[str, ...]) -> str:
    """What the schema refuses below and above; 0 and 1 say nothing."""
    marks = units.metadata_of(field)
    marks += [inner for each in marks if isinstance(each, FieldInfo) for inner in each.metadata]
    least: Any = next((each.ge for each in marks if isinstance(each, Ge)), None)
    most: Any = next((each.le for each in marks if isinstance(each, Le)), None)
    words = [f"at least `{spelled(least, path, field)}`"] if least is not None and least > 1 else []
    words += [f"at most `{spelled(most, path, field)}`"] if most is not None else []
    text = ", ".join(words)
    return f" {text[0].upper()}{text[1:]}." if text else ""


def _change(field: FieldInfo) -> str:
    mark = on_edit(field)
    return "restart" if mark is None else "live" if mark is OnEdit.LIVE else "guarded"


def _cell(text: str) -> str:
    return one_line(text).replace("|", "\\|").replace("<", "&lt;")


def logs_page() -> str:
    return f"{LOGS_HEAD}\n{content('events.md')}"


def errors_page() -> str:
    return f"{ERRORS_HEAD}\n{content('errors.md')}"


# Public names


def python_page() -> str:
    assert sorted(name for names in KINDS.values() for name in names) == framework.__all__
    parts = [PYTHON_HEAD]
    for title, names in KINDS.items():
        parts.append(f"## {title}\n")
        parts += [_described(name) for name in names]
    return "\n".join(parts).rstrip() + "\n"


def _described(name: str) -> str:
    module = import_module(framework._HOME_OF[name])
    value = getattr(module, name)
    source = inspect.getsourcefile(inspect.unwrap(value)) or ""
    tree = ast.parse(Path(source).read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name]
    documented = [node for node in nodes if ast.get_docstring(node)]
    assert documented, f"{name} has no docstring"
    (node,) = documented
    if isinstance(node, ast.FunctionDef):
        shapes = [each for each in nodes if isinstance(each, ast.FunctionDef) and _is_shape(each, nodes)]
        heads = " or ".join(f"`{_signature(each)}`" for each in shapes)
        return f"### {heads}\n\n{_text(node)}\n"
    assert isinstance(node, ast.ClassDef)
    init = _init(node)
    head = _signature(init, name=name) if init is not None else f"{name}({', '.join(_fields(node))})"
    rows = [row for each, after in _pairs(node) if (row := _member(name, each, after))]
    more = [_text(init)] if init is not None and ast.get_docstring(init) else []
    return "\n\n".join([f"### `{head}`", _text(node), *more, *(["\n".join(rows)] if rows else [])]) + "\n"


def _is_shape(node: ast.FunctionDef, nodes: list[Any]) -> bool:
    """The way it is called: overloads where there are some, the documented one elsewhere."""
    overloads = [each for each in nodes if any(ast.unparse(mark) == "overload" for mark in each.decorator_list)]
    return node in overloads if overloads else bool(ast.get_docstring(node))


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, *, name: str = "") -> str:
    """Names and defaults; the types are the sources' and the editors'."""
    given = ast.parse(ast.unparse(node)).body[0]
    assert isinstance(given, ast.FunctionDef | ast.AsyncFunctionDef)
    for each in ast.walk(given.args):
        if isinstance(each, ast.arg):
            each.annotation = None
    given.args.defaults = [_plain(each) for each in given.args.defaults]
    given.args.kw_defaults = [None if each is None else _plain(each) for each in given.args.kw_defaults]
    kept = [each for each in given.args.args if each.arg not in {"self", "cls"}]
    given.args.args = kept
    return f"{name or node.name}({ast.unparse(given.args)})"


def _plain(default: ast.expr) -> ast.expr:
    """What a constant's name stands for."""
    if isinstance(default, ast.Name) and default.id in CONSTANTS:
        return ast.Constant(CONSTANTS[default.id])
    return default


def _beginning(value: ast.expr | None) -> ast.expr | None:
    """What a field of a dataclass begins with, also where `field(...)` says so."""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        return next((each.value for each in value.keywords if each.arg == "default"), None)
    return value


def _fields(node: ast.ClassDef) -> list[str]:
    """Of a dataclass."""
    keyword_only = any("kw_only=True" in ast.unparse(mark) for mark in node.decorator_list)
    found = [
        each.target.id + (f"={ast.unparse(_plain(begins))}" if (begins := _beginning(each.value)) is not None else "")
        for each in node.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and each.target.id[0] != "_"
        and not ast.unparse(each.annotation).startswith("ClassVar")
    ]
    return (["*", *found] if keyword_only else found) if found else []


def _init(node: ast.ClassDef) -> ast.FunctionDef | None:
    """Also one that only type checkers see."""
    return next(
        (each for each in ast.walk(node) if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None
    )


def _pairs(node: ast.ClassDef) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    body, init = list(node.body), _init(node)
    body += init.body if init is not None else []
    yield from zip(body, [*body[1:], None], strict=True)


def _member(owner: str, node: ast.stmt, after: ast.stmt | None) -> str | None:
    """A line for a public method, property or documented attribute."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        if node.name.startswith("_"):
            return None
        said = ast.get_docstring(node)
        assert said, f"{owner}.{node.name} has no docstring"
        marks = {ast.unparse(mark) for mark in node.decorator_list}
        if any(mark.endswith(".setter") for mark in marks):
            return None
        is_value = bool(marks & {"property", "cached_property"})
        shown = node.name if is_value else _signature(node)
        shown = f"await {shown}" if isinstance(node, ast.AsyncFunctionDef) else shown
        return f"- `{shown}`: {one_line(said.partition(chr(10) * 2)[0])}"
    if not isinstance(node, ast.AnnAssign | ast.Assign):
        return None
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    name = target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else "_"
    is_said = (
        isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    )
    if name.startswith("_") or not is_said:
        return None
    assert isinstance(after, ast.Expr)
    assert isinstance(after.value, ast.Constant)
    return f"- `{name}`: {one_line(str(after.value.value))}"


def _text(node: ast.ClassDef | ast.FunctionDef) -> str:
    paragraphs = (ast.get_docstring(node) or "").split("\n\n")
    return "\n\n".join(each if each.startswith("    ") else one_line(each) for each in paragraphs)


def main() -> None:
    SETTINGS.write_text(settings_page())
    PYTHON.write_text(python_page())
    LOGS.write_text(logs_page())
    ERRORS.write_text(errors_page())
    OPTIONS.write_text(options_page())
    BOX.write_text(box_page())


if __name__ == "__main__":
    main()
