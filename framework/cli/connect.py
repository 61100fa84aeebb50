"""Options of the commands that look at a cluster or change it, and the way from them to an `Admin`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from framework.cli import options, output

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.admin.memory import Memory
    from framework.client.options import ClusterOptions
    from framework.settings.fields import Level


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Which cluster, with whose credentials, and in which form the result is wanted."""
    options.add_settings(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """The same of commands that look at a cluster: what they show would lack what lay on a broker that went away."""
    add_connection(parser)
    parser.add_argument(
        "--no-memory", action="store_true", help="neither read nor keep which brokers earlier looks have seen"
    )


def cluster_options(arguments: argparse.Namespace, *, level: Level = "warning") -> ClusterOptions:
    """How the settings say that the cluster is reached. `level`: the lowest that is logged. May raise
    ConfigurationError.
    """
    from framework.runtime.plans import connect

    settings = options.loaded(arguments).settings
    options.log_troubles(settings, is_debug=arguments.debug, level=level)
    return connect.cluster_options(settings, client_id="")


@contextmanager
def admin(arguments: argparse.Namespace) -> Iterator[Admin]:
    """The cluster that the command line and the settings name; closed behind whoever uses it."""
    from framework.admin.cluster import Admin

    options = cluster_options(arguments)
    memory = memory_of(options, arguments)
    with Admin(options, memory=memory) as opened:
        try:
            yield opened
        finally:
            memory.save()
    if memory.trouble:
        output.tell(f"memory: {memory.trouble}; --no-memory does without it")


def memory_of(options: ClusterOptions, arguments: argparse.Namespace) -> Memory:
    """What earlier looks of this user at this cluster found."""
    from framework.admin.memory import Memory, place_of

    try:
        return Memory(None if arguments.no_memory else place_of(options.name_servers, os.environ))
    except RuntimeError as error:  # a user without a home
        found = Memory()
        found.trouble = str(error)
        return found


def say_absent(admin: Admin) -> None:
    """On stderr: brokers that should be there, since what lies on them is not shown."""
    say_unknown(admin.absent({place.name for place in admin.brokers()}))


def say_unknown(unknown: Mapping[str, str]) -> None:
    """On stderr: who did not answer, so that a figure that is missing has its reason."""
    for who, reason in sorted(unknown.items()):
        output.tell(f"unknown: {who}: {reason}")
