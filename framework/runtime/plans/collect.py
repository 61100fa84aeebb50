"""Finding the consumers: imports what the settings or the command line name, and checks what it finds as a whole.

Owns everything that can be wrong between one handler and another, or between handlers and settings. What can be wrong
with one handler alone is `declare`'s, which says it when it is imported.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from framework.core import limits
from framework.declare import Consumer, ConsumerSpec, TransactionCheck
from framework.declare.gathering import Mistaken, gathering
from framework.errors import (
    ConfigurationError,
    ConfigurationMistakes,
    Findings,
    FrameworkError,
    nearest,
    retold,
    shorten,
)
from framework.hooks.failures import line_of, plugin_failure, raised
from framework.mistakes import (
    GroupClash,
    GroupUnknown,
    ImportFailed,
    ModuleMissing,
    NothingToRun,
    OptionWrong,
    RetryWrong,
    SettingUnclear,
    SettingUseless,
    SyntaxWrong,
)
from framework.model.namespaces import unwrap
from framework.settings.consumers import ConsumerSettings
from framework.settings.schema import AppSettings, alike

AnyConsumer = Consumer[..., Any]
_OUR_OTHER_NAMES = frozenset({"framework_app", "frameworkapp"})
"""What the package is called where it is installed, and the command."""
_RUNS_AGAIN = "not for orderly groups, as no message may run twice at once; remove it (stuck_after reports slow ones)"


@dataclass(frozen=True, slots=True)
class Target:
    """What APP names: a module or package by its dotted name, perhaps one attribute of it."""

    module: str
    attribute: str = ""
    folder: Path | None = None
    """The package's own folder, where its settings file may be; None for a single module."""


def target(app: str) -> Target:
    """`orders.py`, `package.module`, `package` or `module:name`; made importable, not imported."""
    name, _, attribute = app.rpartition(":")
    if not name:
        name, attribute = app, ""
    path = Path(name)
    if path.suffix == ".py":
        if not path.is_file():
            raise ModuleMissing(f"APP {app!r}: there is no file {name}{_near_file(path)}")
        if "." in path.stem:
            raise ModuleMissing(f"APP {app!r}: Python imports no file with two dots in its name; rename it")
        if _is_taken(path.resolve()):
            raise ModuleMissing(f"APP {app!r}: Python has a module {path.stem!r} already; choose another name")
        return Target(_module_of(path.resolve()), attribute)
    if path.suffix in {".yaml", ".yml"}:
        raise ModuleMissing(f"APP {app!r}: this is a settings file; write --config {name}")
    if path.is_dir() and ("/" in name or name == "."):
        return Target(_module_of(path.resolve()), attribute, path)
    importable(Path.cwd())
    is_other_file = path.suffix != "" and path.is_file()
    if is_other_file or not all(part.isidentifier() for part in name.split(".")):
        raise ModuleMissing(f"APP {app!r}: write a .py file, a module such as shop.orders, or module:name")
    return Target(name, attribute, _folder(name))


def make_sure(app: str) -> None:
    """That APP names a module which is there; for whoever needs its folder alone. Imports nothing of it."""
    name = target(app).module
    try:
        found = find_spec(name.partition(".")[0])
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise _no_module(name)


def collect(settings: AppSettings, app: str | None = None) -> list[AnyConsumer]:
    """Every consumer that APP or the settings name, checked together. Raises ConfigurationMistakes."""
    findings = Findings()
    found = gather(settings, app, findings)
    if findings:
        raise ConfigurationMistakes(findings.mistakes)
    return found


def gather(settings: AppSettings, app: str | None, findings: Findings) -> list[AnyConsumer]:
    """The same with what is wrong noted: what can be consumed with all the same, for whoever goes on looking."""
    own, found = Findings(), list[AnyConsumer | Mistaken]()
    sources = list(_sources(settings, app))
    for name, place in sources:
        here = Findings()
        with gathering(here):
            found += [each for each in here.tried(partial(_found_in, name, here)) or () if each not in found]
        own.note(*(_placed(each, place) for each in here.mistakes))
    # Those of an import before this one, too: this time nothing was declared.
    broken = [each for each in found if isinstance(each, Mistaken)]
    said = Findings()
    said.note(*(mistake for each in broken for mistake in each.findings.mistakes))
    own.note(*said.mistakes)
    if not found and not own and not (findings and not sources):  # what names them may be what is wrong in the settings
        own.note(NothingToRun(_nothing([app] if app else [name for name, _ in sources])))
    consumers = [each for each in found if isinstance(each, Consumer)]
    is_complete = bool(found) and len(own) == len(said) and all(each.group is not None for each in broken)
    own.note(*check(consumers, settings))
    if is_complete:
        groups = [each.group for each in broken if each.group] + [each.spec.group for each in consumers]
        own.note(*unknown_groups(settings, groups))
    findings.note(*own.mistakes)
    return consumers


def _nothing(names: Sequence[str]) -> str:
    if names:
        return f"there is no consumer in {', '.join(names)}; mark a function with @consumer(topic, group)"
    return (
        "there is no consumer: neither APP nor app.handlers names a module; name a file behind the command, such as "
        "orders.py, or start with `framework-app new app order_desk`"
    )


def check(found: Sequence[AnyConsumer], settings: AppSettings) -> list[ConfigurationError]:
    """What is wrong between these consumers, and between them and their groups' settings."""
    by_group: dict[str, list[ConsumerSpec]] = {}
    for each in found:
        by_group.setdefault(each.spec.group, []).append(each.spec)
    mistakes = [mistake for specs in by_group.values() for mistake in same_topic(specs)]
    mistakes += [mistake for specs in by_group.values() if (mistake := mixture(specs)) is not None]
    return mistakes + over_maximum([each.spec for each in found], settings)


def unknown_groups(settings: AppSettings, groups: Iterable[str]) -> list[ConfigurationError]:
    """Settings of groups that nobody is in: they would silently be without effect."""
    groups = sorted({unwrap(settings.cluster.namespace, group) for group in groups})
    mistakes: list[ConfigurationError] = []
    by_variables = settings.spelled_by_variables
    for group in settings.consumers:
        meant = [each for each in groups if alike(each, group)] if group in by_variables else []
        if len(meant) > 1:
            message = f"consumers.{group}: may mean group {' or '.join(meant)}; use --set or the settings file"
            mistakes.append(SettingUnclear(message, place=settings.place("consumers", group)))
        elif not meant and group not in groups:
            known = nearest(group, groups) or f"; groups: {', '.join(groups)}"
            message = f"consumers.{group}: no consumer is in this group{known}"
            mistakes.append(GroupUnknown(message, place=settings.place("consumers", group)))
    return mistakes


def same_topic(specs: Iterable[ConsumerSpec], namespace: str = "") -> list[ConfigurationError]:
    """Consumers of one group whose topic another one of it has: a message would have two fates."""
    mistakes: list[ConfigurationError] = []
    first: dict[str, ConsumerSpec] = {}
    for spec in specs:
        other = first.setdefault(unwrap(namespace, spec.topic), spec)
        if other is not spec:
            mistakes.append(
                GroupClash(
                    f"consumer {spec.name!r}: topic {spec.topic!r} in group {spec.group!r} already has a consumer, "
                    f"{other.name!r} at {other.place}; give one of them a group of its own",
                    place=spec.place,
                )
            )
    return mistakes


def mixture(specs: Sequence[ConsumerSpec]) -> ConfigurationError | None:
    """What is wrong with one group's consumers where they are not of one kind: its members must agree."""
    for kind, other_kind, is_of_kind in (
        ("broadcasting", "not", attrgetter("broadcasting")),
        ("orderly", "concurrent", attrgetter("orderly")),
    ):
        one = next((spec for spec in specs if is_of_kind(spec)), None)
        other = next((spec for spec in specs if not is_of_kind(spec)), None)
        if one is not None and other is not None:
            return GroupClash(
                f"group {one.group!r} is {kind} for {one.name!r} ({one.place}) and {other_kind} for {other.name!r} "
                f"({other.place}); a group must be one of both; give one consumer its own group",
                place=other.place,
            )
    return None


def without_meaning(group: str, spec: ConsumerSpec, settings: AppSettings) -> Iterator[ConfigurationError]:
    """Settings of a group whose kind of consumers they are not for; `spec` is one of them."""
    orderly, broadcasting = spec.orderly, spec.broadcasting
    chosen = settings.consumer(group)
    pops, may_pop = chosen.delivery == "pop", chosen.delivery != "pull"
    is_by_time = pops and chosen.start.policy not in {"first", "last"}
    for name, is_wrong, why in (
        ("delivery", may_pop and orderly, "orderly groups cannot pop, since pops keep no order; write pull"),
        (
            "delivery",
            may_pop and broadcasting,
            "broadcasting groups cannot pop, since one member gets a pop; write pull",
        ),
        ("invisible", not may_pop, "only groups that pop have it; write delivery: pop, or remove it"),
        ("start", is_by_time, "groups that pop start at first or last; write one of them"),
        ("progress", pops, "brokers keep which popped messages are done; remove it"),
        ("skip_older_than", pops, "popped messages are not skipped; remove it, or write delivery: pull"),
        ("skip_backlog_over", pops, "popped messages are not skipped; remove it, or write delivery: pull"),
        ("damaged", pops, "a damaged record comes back by itself, and holds up no other; remove it"),
        ("allocation", pops, "members that pop do not divide queues; remove it"),
        ("stuck_after", not orderly, "only orderly groups have it; remove it"),
        ("timeout", orderly, _RUNS_AGAIN),
        ("expiry", orderly, _RUNS_AGAIN),
        ("allocation", broadcasting, "members of a broadcasting group do not divide queues; remove it"),
    ):
        if is_wrong and name in settings.consumer(group).model_fields_set:
            place = settings.place("consumers", group, name)
            yield SettingUseless(f"consumers.{group}.{name}: {why}", place=place)


def max_retries_of(chosen: ConsumerSettings, spec: ConsumerSpec) -> int:
    """How often a group's messages are tried again at most, as its settings say or as its kind of consumers does."""
    if chosen.max_retries is not None:
        return chosen.max_retries
    if spec.orderly:
        return limits.MAX_RETRIES_IN_ORDER
    return 0 if spec.broadcasting else limits.MAX_RETRIES


def over_maximum(specs: Sequence[ConsumerSpec], settings: AppSettings) -> list[ConfigurationError]:
    """Declared retries over their group's maximum: there the broker makes a dead letter, whatever was declared."""
    mistakes: list[ConfigurationError] = []
    for spec in specs:
        most = max_retries_of(settings.consumer(spec.group), spec)
        if spec.retry is not None and spec.retry.max is not None and spec.retry.max > most:
            what = f"Retry: max={spec.retry.max} is above consumers.{spec.group}.max_retries, which is {most}"
            mistakes.append(RetryWrong(f"consumer {spec.name!r}: {what}; raise it, or lower max", place=spec.place))
    return mistakes


def _sources(settings: AppSettings, app: str | None) -> Iterable[tuple[str, str | None]]:
    """APP, else what the settings name; of a package given as APP, those of its modules that the settings name."""
    named = [(name, settings.place("app", "handlers", str(at))) for at, name in enumerate(settings.app.handlers)]
    if app is None:
        return named
    inside = [(name, place) for name, place in named if name.startswith(f"{app}.")]
    return inside or [(app, None)]


def _found_in(app: str, findings: Findings) -> list[AnyConsumer | Mistaken]:
    wanted = target(app)
    module = _imported(wanted.module)
    if wanted.attribute:
        value = getattr(module, wanted.attribute, None)
        if not isinstance(value, Consumer | Mistaken):
            names = [name for name, each in vars(module).items() if isinstance(each, Consumer)]
            what = f"{shorten(value)} is not a consumer" if value is not None else "there is no such name"
            close = nearest(wanted.attribute, names) or (f"; consumers there: {', '.join(names)}" if names else "")
            raise ModuleMissing(f"{wanted.module}:{wanted.attribute}: {what}{close}")
        return [value]
    found = list(_in_module(module))
    for info in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{wanted.module}."):
        if info.name.rpartition(".")[2] == "__main__":
            continue
        inner = findings.tried(partial(_imported, info.name))
        if inner is not None:
            found += _in_module(inner)
    return list(dict.fromkeys(found))


def _in_module(module: ModuleType) -> Iterator[AnyConsumer | Mistaken]:
    """Consumers that this module declares; those that it imported from elsewhere are found where they stand."""
    for value in vars(module).values():
        if isinstance(value, Consumer):
            spec = value.spec
            if module.__name__ in {spec.module, getattr(spec.function, "__module__", "")}:
                yield value
        elif isinstance(value, Mistaken):
            yield value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield from (each for each in vars(value).values() if isinstance(each, Mistaken))


def consumers_in(given: object, what: str) -> list[AnyConsumer]:
    """The consumers that a program hands over: one, or several. Raises ConfigurationError for what is none."""
    several: list[Any] = [given]
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        several = list(given)
    for each in several:
        if isinstance(each, Mistaken):
            each.findings.check()
        if not isinstance(each, Consumer):
            code = getattr(each, "__code__", None)
            name = getattr(each, "__name__", None) or shorten(each)
            place = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
            message = f"{what}: {name} is not a consumer; mark it with @consumer(topic, group)"
            raise OptionWrong(message, place=place)
    return several


def checks_beside(consumers: Iterable[AnyConsumer]) -> list[TransactionCheck]:
    """The check functions that stand in the modules of these consumers, each once."""
    modules = dict.fromkeys(each.spec.module for each in consumers)
    found = [value for name in modules if name in sys.modules for value in vars(sys.modules[name]).values()]
    return list(dict.fromkeys(value for value in found if isinstance(value, TransactionCheck)))


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except FrameworkError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise _no_module(name) from None
        remedy = (
            "write: from framework import ..." if missing in _OUR_OTHER_NAMES else "install it, or correct the name"
        )
        raise ImportFailed(f"importing {name}: no module named {missing!r}; {remedy}", place=line_of(error)) from error
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}" if error.filename else _file_of(name)
        line = f" in {shorten(error.text.strip())}" if error.text else ""
        raise SyntaxWrong(f"importing {name}: {error.msg}{line}; correct it", place=place) from error
    except BaseException as error:  # border: the user's module
        plugin_failure(error)
        raise ImportFailed(f"importing {name}: {raised(error)}{_way_out(error)}", place=line_of(error)) from error


def _way_out(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return '; an import must not end the program: write this below `if __name__ == "__main__":`'
    return "; correct it"


def _no_module(name: str) -> ModuleMissing:
    hint = _near_module(name) or "; correct the name, or start it in the folder that has the module"
    return ModuleMissing(f"there is no module {name!r}{hint}")


def _file_of(name: str) -> str | None:
    """Where a module is that Python cannot read."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    return spec.origin if spec is not None else None


def _placed(error: ConfigurationError, place: str | None) -> ConfigurationError:
    return error if error.place or place is None else retold(error, str(error), place=place)


def importable(folder: Path) -> None:
    """Let modules in this folder be imported, as `python -m` does for the current one."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _module_of(path: Path) -> str:
    """The dotted name of a file or folder, with what it hangs on made importable: the folder above its top package."""
    parts = [path.stem if path.suffix == ".py" else path.name]
    folder = path.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    importable(folder)
    return ".".join(parts)


def _is_taken(path: Path) -> bool:
    """Whether a file of this name hides a module of Python's or of ours, or an installed one hides it."""
    if (path.parent / "__init__.py").is_file():
        return False
    place = str(getattr(sys.modules.get(path.stem), "__file__", ""))
    is_installed = "site-packages" in place and Path(place).resolve() != path
    return path.stem == "framework" or path.stem in sys.stdlib_module_names or is_installed


def _folder(name: str) -> Path | None:
    """Where a package lies. Looked for without importing it: find_spec would import what a dotted name hangs on."""
    top, *rest = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    for part in rest:
        places = [place / part for place in places if (place / part).is_dir()]
    return places[0] if places else None


def _near_module(name: str) -> str:
    parent = name.rpartition(".")[0]
    paths = None
    if parent:
        try:
            paths = list(getattr(importlib.import_module(parent), "__path__", ()))
        except ImportError:
            return ""
    else:
        paths = [str(Path.cwd())]
    prefix = f"{parent}." if parent else ""
    return nearest(name, [prefix + info.name for info in pkgutil.iter_modules(paths)])


def _near_file(path: Path) -> str:
    folder = path.parent
    return nearest(path.name, [each.name for each in folder.glob("*.py")]) or "; correct the name"
