"""From the strategy that settings name, with its options, to the object that a group calls; and from policies' names.

It checks the options, so that an error in them names its place in the file. The strategy says what the options mean;
the host says which strategies there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from framework.errors import ConfigurationError, nearest
from framework.hooks.failures import plugin_failure
from framework.hooks.validated import Origin, validated
from framework.mistakes import NameUnknown, OfferWrong, WrongValue
from framework.model.allocation import Allocation
from framework.model.contracts import AllocationStrategy, TakesOptions

T = TypeVar("T")
Contain = Callable[[str, AllocationStrategy], AllocationStrategy]


def _as_it_is(_: str, strategy: AllocationStrategy) -> AllocationStrategy:
    return strategy


def choose(
    allocation: Allocation,
    strategies: Mapping[str, AllocationStrategy],
    path: tuple[str, ...],
    origin: Origin,
    contained: Contain = _as_it_is,
) -> AllocationStrategy:
    """The strategy for what was written at `path`; raises ConfigurationError (or several) with file and line.

    `contained(name, strategy)` is called in the strategy's place, and for one that another strategy's option names.
    """
    name, here = allocation.name, (*path, allocation.name)
    place = origin.place(*here) or origin.place(*path)
    strategy = named("strategy", name, strategies, path, origin)
    try:
        if not isinstance(strategy, TakesOptions):
            if allocation.options:
                raise WrongValue(f"{'.'.join(path)}: the strategy {name!r} has no options", place=place)
            return contained(name, strategy)
        options = validated(strategy.options, allocation.options, here, origin)
        configured = strategy.configured(
            options, lambda inner, option: choose(inner, strategies, (*here, option), origin, contained)
        )
        return contained(name, configured)
    except ConfigurationError:
        raise
    except BaseException as error:
        plugin_failure(error)
        reason = f"the strategy {name!r} failed: {type(error).__name__}: {error}"
        raise OfferWrong(f"{'.'.join(path)}: {reason}", place=place) from error


def named(
    what: str, name: str, offered: Mapping[str, T], path: tuple[str, ...], origin: Origin, also: Sequence[str] = ()
) -> T:
    """What plugins offer by this name, which is written at `path`. ConfigurationError with file, line and the nearest
    name, or all of them; `also` may be written, and are no plugin's.
    """
    found = offered.get(name)
    if found is None:
        known = [*also, *offered]
        hint = nearest(name, known) or f"; known: {', '.join(known)}"
        place = origin.place(*path, name) or origin.place(*path)
        raise NameUnknown(f"{'.'.join(path)}: no {what} {name!r}{hint}", place=place)
    return found
