"""A cluster's settings as options of the source. Secrets do not travel: each executor reads them by a reference."""

from __future__ import annotations

from framework.settings.schema import ClusterSettings
from framework_spark.mistakes import SparkMisused


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
