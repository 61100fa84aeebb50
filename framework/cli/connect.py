"""Options of the commands that look at a cluster or change it, and the way from them to an `Admin`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from framework.cli import options, table

if TYPE_CHECKING:
    from framework.admin.cluster import Admin
    from framework.client.options import ClusterOptions


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Which cluster, with whose credentials, and in which form the result is wanted."""
    options.add_settings(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def cluster_options(arguments: argparse.Namespace) -> ClusterOptions:
    """How the settings say that the cluster is reached. Raises ConfigurationError."""
    from framework.runtime.build import connect
    from framework.runtime.logs import setup

    settings = options.loaded(arguments).settings
    setup.configure(settings.model_copy(update={"logging": _quiet(arguments)}))
    return connect.cluster_options(settings, client_id="")


def _quiet(arguments: argparse.Namespace) -> object:
    from framework.settings.schema import LoggingSettings

    return LoggingSettings(level="debug" if arguments.debug else "warning")


@contextmanager
def admin(arguments: argparse.Namespace) -> Iterator[Admin]:
    """The cluster that the command line and the settings name; closed behind whoever uses it."""
    from framework.admin.cluster import Admin

    with Admin(cluster_options(arguments)) as opened:
        yield opened


def say_unknown(unknown: Mapping[str, str]) -> None:
    """On stderr: who did not answer, so that a figure that is missing has its reason."""
    for who, reason in sorted(unknown.items()):
        sys.stderr.write(f"unknown: {who}: {table.plain(reason)}\n")
