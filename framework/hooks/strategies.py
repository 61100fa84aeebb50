"""From the strategy that settings name, with its options, to the one that a group asks; and from policies' names.

Owns the checking of options, so that a mistake in them has its place in the file. What the options mean is the
strategy's affair; which strategies there are is the host's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from framework.errors import ConfigurationError, nearest
from framework.hooks.theirs import theirs
from framework.hooks.validated import Origin, validated
from framework.model.allocation import Allocation
from framework.model.contracts import AllocationStrategy, ExpiryPolicy, TakesOptions

Watched = Callable[[str, AllocationStrategy], AllocationStrategy]


def _as_it_is(_: str, strategy: AllocationStrategy) -> AllocationStrategy:
    return strategy


def choose(
    allocation: Allocation,
    strategies: Mapping[str, AllocationStrategy],
    path: tuple[str, ...],
    origin: Origin,
    watched: Watched = _as_it_is,
) -> AllocationStrategy:
    """The strategy for what was written at `path`; raises ConfigurationError (or several) with file and line.

    `watched(name, strategy)` is what is asked in its place, and in that of one that another's option speaks of.
    """
    name, here = allocation.name, (*path, allocation.name)
    place = origin.place(*here) or origin.place(*path)
    strategy = strategies.get(name)
    if strategy is None:
        hint = nearest(name, strategies) or f"; known: {', '.join(strategies)}"
        raise ConfigurationError(f"{'.'.join(path)}: no strategy {name!r}{hint}", place=place)
    try:
        if not isinstance(strategy, TakesOptions):
            if allocation.options:
                raise ConfigurationError(f"{'.'.join(path)}: the strategy {name!r} has no options", place=place)
            return watched(name, strategy)
        options = validated(strategy.options, allocation.options, here, origin)
        configured = strategy.configured(
            options, lambda inner, option: choose(inner, strategies, (*here, option), origin, watched)
        )
        return watched(name, configured)
    except ConfigurationError:
        raise
    except BaseException as error:
        theirs(error)
        reason = f"the strategy {name!r} failed: {type(error).__name__}: {error}"
        raise ConfigurationError(f"{'.'.join(path)}: {reason}", place=place) from error


def named_policy(
    name: str, policies: Mapping[str, ExpiryPolicy], path: tuple[str, ...], origin: Origin
) -> ExpiryPolicy:
    """The expiry policy of this name; raises ConfigurationError with file and line."""
    policy = policies.get(name)
    if policy is None:
        hint = nearest(name, policies) or f"; known: {', '.join(policies)}"
        raise ConfigurationError(f"{'.'.join(path)}: no expiry policy {name!r}{hint}", place=origin.place(*path))
    return policy
