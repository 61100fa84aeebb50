"""Bodies whose schema a registry keeps, in Confluent's wire format: a zero byte, four bytes of schema id, the payload.

`SchemaRegistry` asks the registry in the driver, when a query is built, and makes columns of Spark's own functions of
it: executors ask nothing, and no row passes through Python. A schema has an id for ever, so each is asked for once.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from framework.errors import FrameworkError, shorten
from framework_spark.mistakes import SparkMisused

if TYPE_CHECKING:
    from pyspark.sql import Column

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024
_HEAD = 5  # the zero byte and the id
_MEDIA = "application/vnd.schemaregistry.v1+json, application/json"


class RegistryFailed(FrameworkError):
    """A schema registry did not answer, or did not answer with what was asked for."""

    id = "FA-K004"


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of a subject."""

    id: int
    version: int
    text: str
    kind: str = "AVRO"


@dataclass(slots=True)
class SchemaRegistry:
    """`SchemaRegistry("http://registry:8081")`, or any other with Confluent's HTTP interface.

    `credentials="env:REGISTRY"` reads REGISTRY_USER and REGISTRY_PASSWORD where a request is made.
    """

    url: str
    credentials: str = ""
    timeout_s: float = TIMEOUT_S
    _known: dict[tuple[str, int], Schema] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
            raise SparkMisused(
                f"SchemaRegistry({shorten(parts.hostname or '')}): write http://host:port or https://host:port, and "
                "credentials='env:PREFIX' for a user and a password"
            )
        if self.credentials and not self.credentials.startswith("env:"):
            # The text may be a secret that somebody put there by mistake, so it is not repeated.
            raise SparkMisused("SchemaRegistry: credentials: write env:PREFIX, never the password itself")

    # Schemas

    def versions(self, subject: str) -> list[Schema]:
        """All versions of a subject, oldest first. RegistryFailed where there is none."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        numbers = self._asked(path)
        if not isinstance(numbers, list) or not numbers:
            raise RegistryFailed(f"schema registry {self.url}: subject {subject!r} has no version")
        return [self._version(subject, path, int(number)) for number in sorted(numbers)]

    def _version(self, subject: str, path: str, number: int) -> Schema:
        if (subject, number) not in self._known:
            found = self._asked(f"{path}/{number}")
            try:
                kind, references = found.get("schemaType", "AVRO"), found.get("references")
                schema = Schema(int(found["id"]), number, str(found["schema"]), kind)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise RegistryFailed(f"schema registry {self.url}: {path}/{number} is no schema") from error
            if references:
                raise RegistryFailed(
                    f"schema registry {self.url}: version {number} of {subject!r} refers to other schemas, which "
                    "Spark's functions cannot follow; register it as one text"
                )
            self._known[subject, number] = schema
        return self._known[subject, number]

    def _asked(self, path: str) -> Any:
        request = Request(self.url.rstrip("/") + path, headers={"Accept": _MEDIA, **self._authorization()})  # noqa: S310  # of __post_init__
        try:
            with urlopen(request, timeout=self.timeout_s) as answer:  # noqa: S310
                data = answer.read(ANSWER_BYTES_MAX + 1)
            if len(data) > ANSWER_BYTES_MAX:
                raise RegistryFailed(f"schema registry {self.url}: the answer to {path} is too large")
            return json.loads(data)
        except HTTPError as error:
            with error:
                raise RegistryFailed(f"schema registry {self.url}: {path}: {error.code} {error.reason}") from error
        except (OSError, URLError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise RegistryFailed(f"schema registry {self.url}: {path}: {reason}") from error

    def _authorization(self) -> Mapping[str, str]:
        if not self.credentials:
            return {}
        prefix = self.credentials.removeprefix("env:")
        user, password = os.environ.get(f"{prefix}_USER", ""), os.environ.get(f"{prefix}_PASSWORD", "")
        if not user:
            raise SparkMisused(f"SchemaRegistry: credentials {self.credentials}: {prefix}_USER is not set")
        return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}

    # Columns

    def avro(
        self, column: str | Column, subject: str, *, unknown: str = "fail", options: Mapping[str, str] | None = None
    ) -> Column:
        """The bodies as structs of the subject's newest version, each read by the version that it was written with.

        The versions are those that there are now. A body with another id, or without one, fails the query, or is null
        with `unknown="null"`. Needs Spark's jar for Avro; `options` are those of its `from_avro`.
        """
        from pyspark.sql import functions as F  # noqa: N812  # as Spark's documentation names them
        from pyspark.sql.avro.functions import from_avro

        if unknown not in {"fail", "null"}:
            raise SparkMisused(f"avro(unknown={shorten(unknown)}): write fail or null")
        versions = self.versions(subject)
        strange = next((each for each in versions if each.kind != "AVRO"), None)
        if strange is not None:
            raise SparkMisused(
                f"avro: version {strange.version} of subject {subject!r} is {strange.kind}, and not Avro"
            )
        body, newest = _body(column), versions[-1].text
        found, data = schema_id(body), payload(body)
        decoded = F.when(body.isNull(), F.lit(None))
        for each in versions:
            decoded = decoded.when(
                found == each.id, from_avro(data, each.text, {**(options or {}), "avroSchema": newest})
            )
        if unknown == "null":
            return decoded
        ids = ", ".join(str(each.id) for each in versions)
        said = F.concat(F.lit("schema id "), F.coalesce(found.cast("string"), F.lit("none")), F.lit(
            f" is none of subject {subject}'s, {ids}; if it is new, start the query again"))  # fmt: skip
        return decoded.otherwise(F.raise_error(said))


def schema_id(column: str | Column) -> Column:
    """The id of the schema that a body was written with; null where it does not begin as the wire format does."""
    from pyspark.sql import functions as F  # noqa: N812

    body = _body(column)
    found = F.conv(F.hex(F.substring(body, 2, 4)), 16, 10).cast("int")
    return F.when((F.length(body) >= _HEAD) & (F.substring(body, 1, 1) == F.lit(b"\x00")), found)


def payload(column: str | Column, *, is_protobuf: bool = False) -> Column:
    """A body without the head, as bytes: for `from_json` after a cast to string, `from_avro`, `from_protobuf`.

    `is_protobuf`: without the indexes of the message type, too, of which each is below 64.
    """
    from pyspark.sql import functions as F  # noqa: N812

    body = _body(column)
    head = F.lit(_HEAD)
    if is_protobuf:
        # How many indexes, as a number in zigzag, then one byte each. None at all stands for the first type.
        head = head + 1 + F.floor(F.conv(F.hex(F.substring(body, _HEAD + 1, 1)), 16, 10).cast("int") / 2).cast("int")
    rest = F.substring(body, head + 1, F.length(body))
    return F.when(schema_id(body).isNotNull(), rest)


def _body(column: str | Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(column) if isinstance(column, str) else column
