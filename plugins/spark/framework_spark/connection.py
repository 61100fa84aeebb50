"""A cluster's settings as options of the source and the sink, and as settings of a handler's session, so that what it
writes goes where its messages come from. Secrets do not travel: each executor reads them by a reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from framework_spark.mistakes import SparkMisused

if TYPE_CHECKING:
    from framework.settings.schema import ClusterSettings

_PREFIX = "spark.framework."
_TOLD = ("nameServers", "credentials", "tls", "tlsCaFile", "tlsCertFile", "tlsKeyFile")
_REFUSED = "refused"
"""Why executors cannot reach the cluster of the settings."""


def tell(session: Any, options: Mapping[str, str]) -> None:
    """Have a session know the cluster: `cluster_of` answers it."""
    for name in (*_TOLD, _REFUSED):
        if name in options:
            session.conf.set(_PREFIX + name, options[name])


def told(cluster: ClusterSettings) -> dict[str, str]:
    """What `tell` is given of a cluster that a handler need not write to."""
    try:
        return options_of(cluster, "cluster_of")
    except SparkMisused as error:
        return {_REFUSED: str(error)}


def cluster_of(session: Any) -> dict[str, str]:
    """Options by which a handler's frames read from, or are written to, the cluster that its messages come from, also
    where a command named another one (`--name-server`): `.options(**cluster_of(frame.sparkSession), topic="totals")`.
    """
    found = {name: session.conf.get(_PREFIX + name, None) for name in (*_TOLD, _REFUSED)}
    given = {name: value for name, value in found.items() if value}
    if reason := given.pop(_REFUSED, ""):
        raise SparkMisused(reason)
    if not given:
        raise SparkMisused(
            'cluster_of: this session is of no handler with engine="spark"; give it the frame\'s, frame.sparkSession, '
            f"or set {_PREFIX}nameServers"
        )
    return given


def options_of(cluster: ClusterSettings, who: str) -> dict[str, str]:
    """Those that say how it is reached. ConfigurationError for what executors cannot be told."""
    given = {"nameServers": ",".join(cluster.name_servers)}
    if cluster.credentials.access_key:
        if not cluster.credentials.file:
            raise SparkMisused(
                f"{who}: each executor of Spark's reads the keys by itself; write cluster.credentials.file, a file "
                "that all of them have"
            )
        given["credentials"] = f"file:{cluster.credentials.file}"
    if cluster.tls.enabled:
        if not cluster.tls.verify or cluster.tls.key_password.reveal():
            raise SparkMisused(f"{who}: executors of Spark's verify certificates and take a key without a password")
        files = {
            "tlsCaFile": cluster.tls.ca_file, "tlsCertFile": cluster.tls.cert_file, "tlsKeyFile": cluster.tls.key_file
        }  # fmt: skip
        given |= {"tls": "true"} | {option: path for option, path in files.items() if path}
    if cluster.address_map or cluster.allow:
        raise SparkMisused(
            f"{who}: cluster.address_map and cluster.allow do not reach executors of Spark's; use mode: driver"
        )
    return given
