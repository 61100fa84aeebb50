"""Bodies whose schema a registry keeps, in Confluent's wire format: a zero byte, four bytes of schema id, the payload.

`SchemaRegistry` asks the registry in the driver, when a query is built, and makes columns of Spark's own functions of
it: executors ask nothing, and no row passes through Python. A schema has an id for ever, so each is asked for once.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from framework.errors import FrameworkError, shorten
from framework_spark.causes import cause_of
from framework_spark.mistakes import SparkMisused

if TYPE_CHECKING:
    from pyspark.sql import Column

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 16 * 1024 * 1024
_HEAD = 5  # the zero byte and the id
_PIECE = 64 * 1024
_LEVELS = 8  # of messages within messages
_NUMBER = "(?:[89A-F][0-9A-F])*[0-7][0-9A-F]"  # in hex: each byte but the last has its highest bit
_INDEXES = f"^(?:00|{'|'.join(f'{2 * level:02X}(?:{_NUMBER}){{{level}}}' for level in range(1, _LEVELS + 1))})"
"""How many, in zigzag, then each. None at all stands for the first type."""
_INDEXES_BYTES = 1 + 3 * _LEVELS
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
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or not _has_port(parts):
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
        if not isinstance(numbers, list) or any(not isinstance(each, int) for each in numbers):
            raise RegistryFailed(f"schema registry {self.url}: {path} is no list of versions")
        if not numbers:
            raise RegistryFailed(f"schema registry {self.url}: subject {subject!r} has no version")
        return [self._version(subject, path, number) for number in sorted(numbers)]

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
            with _OPENER.open(request, timeout=self.timeout_s) as answer:
                data = self._read(answer, path)
            return json.loads(data)
        except HTTPError as error:
            with error:
                said = f"{error.code} {error.reason}{_way_out(error)}"
                raise RegistryFailed(f"schema registry {self.url}: {path}: {said}") from error
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            reason = getattr(error, "reason", None) or f"{type(error).__name__}: {error}"
            raise RegistryFailed(f"schema registry {self.url}: {path}: {reason}") from error

    def _read(self, answer: Any, path: str) -> bytes:
        """All of it. `timeout_s` is also for the whole: a socket's own is for each piece."""
        until, data = time.monotonic() + self.timeout_s, bytearray()
        while piece := answer.read1(_PIECE):
            data += piece
            if len(data) > ANSWER_BYTES_MAX:
                raise RegistryFailed(f"schema registry {self.url}: {path}: the answer is too large")
            if time.monotonic() > until:
                raise TimeoutError(f"no whole answer within {self.timeout_s:g} s")
        return bytes(data)

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

        The versions are those that there are now. A body with another id, without one, or of a version that the newest
        one cannot read, fails the query, or is null with `unknown="null"`. Needs Spark's jar for Avro; `options` are
        those of its `from_avro`.
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
            trouble = _unreadable(newest, each.text)
            read = from_avro(data, each.text, {**(options or {}), "avroSchema": newest}) if not trouble else None
            if read is None and unknown == "fail":
                what = (
                    f"version {each.version} of subject {subject} is not readable as the newest, {versions[-1].version}"
                )
                read = F.raise_error(F.lit(f"{what}: {trouble}"))
            if read is not None:
                decoded = decoded.when(found == each.id, read)
        if unknown == "null":
            return decoded
        ids = ", ".join(str(each.id) for each in versions)
        said = F.concat(F.lit("schema id "), F.coalesce(found.cast("string"), F.lit("none")), F.lit(
            f" is none of subject {subject}'s, {ids}; if it is new, start the query again"))  # fmt: skip
        return decoded.otherwise(F.raise_error(said))


def _unreadable(reader: str, writer: str) -> str:
    """Why bodies of the one schema cannot be read by the other, by Avro's own rules; Spark says "malformed records".

    Empty where they can, and for a client of Spark Connect, which has no Avro.
    """
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # noqa: SLF001  # no public way
    if jvm is None or reader == writer:
        return ""
    avro = jvm.org.apache.avro
    try:
        found = avro.SchemaCompatibility.checkReaderWriterCompatibility(
            *(avro.Schema.Parser().parse(each) for each in (reader, writer))
        )
        wrong = found.getResult().getIncompatibilities()
    except Exception as error:  # noqa: BLE001 - border: the JVM's; what is no schema of Avro's
        return cause_of(error)
    return "; ".join(f"{each.getLocation()}: {each.getMessage()}" for each in wrong)


class _NoRedirects(HTTPRedirectHandler):
    """Python's own would send the user and the password to wherever the answer points."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = build_opener(_NoRedirects)


def _way_out(error: HTTPError) -> str:
    match error.code:
        case 401 | 403:
            return "; give credentials='env:PREFIX', or others"
        case 404:
            return "; a subject is usually called TOPIC-value"
        case code if 300 <= code < 400:
            return f"; it points to {shorten(error.headers.get('Location', ''))}: write the address that answers"
        case _:
            return ""


def _has_port(parts: SplitResult) -> bool:
    """Whether it names a port that there may be, or none."""
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def schema_id(column: str | Column) -> Column:
    """The id of the schema that a body was written with; null where it does not begin as the wire format does."""
    from pyspark.sql import functions as F  # noqa: N812

    body = _body(column)
    found = F.conv(F.hex(F.substring(body, 2, 4)), 16, 10).cast("bigint")  # an int is too small for hostile ones
    return F.when((F.length(body) >= _HEAD) & (F.substring(body, 1, 1) == F.lit(b"\x00")), found)


def payload(column: str | Column, *, is_protobuf: bool = False) -> Column:
    """A body without the head, as bytes: for `from_json` after a cast to string, `from_avro`, `from_protobuf`.

    `is_protobuf`: without the indexes of the message type, too; null where there are none that can be read.
    """
    from pyspark.sql import functions as F  # noqa: N812

    body = _body(column)
    head = F.lit(_HEAD)
    if is_protobuf:
        indexes = F.regexp_extract(F.hex(F.substring(body, _HEAD + 1, _INDEXES_BYTES)), _INDEXES, 0)
        head = F.when(indexes != "", head + (F.length(indexes) / 2).cast("int"))
    rest = F.substring(body, head + 1, F.length(body))
    return F.when(schema_id(body).isNotNull(), rest)


def _body(column: str | Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(column) if isinstance(column, str) else column
