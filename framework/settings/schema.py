"""AppSettings and its parts: every key that a settings file may have, its type, its default and its meaning.

The one place of defaults; `config/default.yaml` is checked against it. Where a value came from is `sources.py`'s
affair. Durations are milliseconds and sizes bytes once they are here. Everything is frozen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator
from pydantic.fields import FieldInfo

from framework.core import limits
from framework.errors import ConfigurationError, ConfigurationMistakes
from framework.model.allocation import Allocation
from framework.model.reserved import TRACE_TOPIC
from framework.settings.fields import (
    CONCURRENCY_MAX,
    Address,
    Addresses,
    AllocationSetting,
    BoxLimits,
    Code,
    FileName,
    GroupName,
    Guard,
    Keys,
    Level,
    Live,
    Networks,
    RateSetting,
    Start,
    StartSetting,
    Texts,
    TopicName,
)
from framework.settings.hidden import Hidden
from framework.settings.mistakes import Places, translated, without_mistaken
from framework.settings.secret import Secret
from framework.settings.units import Duration, Size


class Section(BaseModel):
    """What all parts have in common: frozen, and a key nobody knows is a mistake."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,
        arbitrary_types_allowed=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, value: Any) -> Any:
        """`tls:` with nothing behind it means what leaving it out means, and so does an empty list or mapping. A single
        value that is empty is an error, unless its field takes that.
        """
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            return value
        fields = cls.model_fields
        return {key: each for key, each in value.items() if each is not None or not _is_collection(fields.get(key))}


def _is_collection(field: FieldInfo | None) -> bool:
    if field is None or field.is_required() or any(hasattr(each, "min_length") for each in field.metadata):
        return False
    kind = field.annotation
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return get_origin(kind) in {tuple, Mapping}


class ProcessSettings(Section):
    name: str = "app"
    """What this application is called in logs."""
    handlers: Code[Texts] = ()
    """Modules that hold the consumers: `package.module`, a .py file, or `module:name`. APP on the command line wins."""
    budget: Live[Annotated[Size, Field(ge=1 << 20)]] = limits.BUDGET_BYTES
    """Bytes of pulled messages that this process may hold, all queues together."""
    drain: Live[Duration] = 30_000
    """How long running handlers may take to end when the application stops; what is left then is delivered again."""
    instance: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$")] = ""
    """A name that this process keeps from start to start and no other process has, such as ${env:HOSTNAME}: started
    again within `grace` it moves no queue. Empty: a new member at each start. The same choice in every member, and no
    Java members beside. docs/reliability.md."""
    grace: Annotated[Duration, Field(le=600_000)] = 10_000
    """For how long others leave the queues of a process with a name to it when it is gone. 0s: not at all."""
    protect: bool | None = None
    """Join a group only after having been steady for a while, where this process has lately come and gone too often:
    10s, then 20s, up to 5m, and up to 1m where it would otherwise change the group more than three times in a minute.
    Empty: where it has a name; true: also by the name of its machine, one process on each."""
    start_jitter: Annotated[Duration, Field(le=60_000)] = 0
    """Join within this time after the start, drawn, and take queues when it is over: 2s where dozens start at once."""


class WorkersSettings(Section):
    max_messages: Annotated[int, Field(ge=1)] | None = None
    """Messages after which a process of `run` drains and another takes its place, one after the other. Empty: never."""
    max_memory: Annotated[Size, Field(ge=1 << 24)] | None = None
    """Memory with which it does, likewise; looked at twice a second. Empty: never."""

    @property
    def is_recycled(self) -> bool:
        return self.max_messages is not None or self.max_memory is not None


class CredentialsSettings(Section):
    access_key: Guard[str] = ""
    """The key that names us. Empty: requests are not signed."""
    secret_key: Guard[Secret] = Secret("")
    """The key that signs. Write ${env:NAME}, or use `file`."""
    security_token: Secret = Secret("")
    """A temporary token that goes with some cloud vendors' keys."""
    file: FileName = ""
    """A YAML file with access_key, secret_key and security_token, beside this file unless absolute."""


class TlsSettings(Section):
    enabled: Guard[bool] = False
    """Speak TLS to name servers and brokers. There is no falling back to plain."""
    verify: Guard[bool] = True
    """Check certificates and host names. `false` trusts anybody, and warns at each start."""
    ca_file: FileName = ""
    """Certificates to trust, PEM. Empty: the system's."""
    cert_file: FileName = ""
    """Our certificate, PEM, for servers that ask for one."""
    key_file: FileName = ""
    """The key of our certificate, PEM."""
    key_password: Secret = Secret("")
    """Opens the key."""
    server_name: str = ""
    """The name that certificates must carry, where it is not the address that was dialled."""


class ClusterSettings(Section):
    name_servers: Annotated[Addresses, Field(min_length=1)] = ("127.0.0.1:9876",)
    """Name servers, host:port. One after the other is tried."""
    embedded: bool = False
    """`framework-app run` brings a broker in the box along, which listens at the one name server named here, on this
    machine. For a laptop or a small service; `dev` has one of its own in any case."""
    embedded_data: FileName = ""
    """The folder that the embedded broker keeps everything in, beside this file unless absolute. Empty: in memory."""
    embedded_limits: BoxLimits = Field(default_factory=dict)
    """Other limits of the embedded broker than the usual: {connections: 1024, message: 1MiB}. See docs/broker.md."""
    address_map: Mapping[Address, Address] = Field(default_factory=dict)
    """{advertised: reachable}, for brokers in containers that advertise addresses which cannot be reached from here."""
    allow: Networks = ()
    """Networks that brokers may be in, such as 10.0.0.0/8. Empty: all but link-local, metadata and multicast ones."""
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]*$", max_length=100)] = ""
    """The tenant that all our topics and groups belong to; handlers and settings name them without it."""
    request_timeout: Annotated[Duration, Field(ge=1)] = 3_000
    """How long one request may wait for its answer."""
    heartbeat_v2: bool = False
    """Send brokers of 5.1 and later a fingerprint instead of all subscriptions, while nothing has changed."""
    wait_broker: Duration | None = None
    """How long a start waits for a cluster that is down. Empty: for ever."""
    credentials: CredentialsSettings = CredentialsSettings()
    """Signed requests (ACL)."""
    tls: TlsSettings = TlsSettings()
    """Encryption."""


class ConsumerSettings(Section):
    concurrency: Live[Annotated[int, Field(ge=1, le=CONCURRENCY_MAX)]] = 20
    """Handlers running at once in this process: tasks for async handlers, threads for others."""
    paused: Live[bool] = False
    """Start no handler and pull nothing until this is false again; the group's queues stay its own."""
    autostart: bool = True
    """Join when the application starts. `false`: when the code says app.start_consumer("GROUP"), and until then brokers
    and other members hear nothing of the group here."""
    rate: Live[RateSetting | None] = None
    """Messages that this process hands to handlers at most, what comes back for a retry among them: 100/s, 30/m or
    1000/h. Empty: as many as they take."""
    max_retries: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Retries after the first delivery; then the message goes to the dead-letter topic. Empty: 16, which means 17
    deliveries, and without end in an orderly group. A broadcasting group retries in place, drops, and has 0."""
    start: StartSetting = Start("last")
    """Where a group begins that the cluster has never seen: first, last, an age (30m) or a time with its zone."""
    skip_older_than: Annotated[Duration, Field(ge=1)] | None = None
    """Settle messages unhandled that were stored longer ago than this; retries are handled. Empty: no such rule."""
    skip_backlog_over: Annotated[int, Field(ge=0)] | None = None
    """Settle messages unhandled that are further than this behind their queue's end, likewise. Empty: no such rule."""
    timeout: Live[Annotated[Duration, Field(ge=1)] | None] = 900_000
    """How long a handler may run before its message is put to `expiry`; not in order. Empty: as long as it likes."""
    expiry: Live[Annotated[str, Field(min_length=1)]] = "send_back"
    """The policy for a message whose handler takes longer: send_back, dead_letter, drop, extend, or a plugin's."""
    stuck_after: Annotated[Duration, Field(ge=1)] = 900_000
    """Orderly groups: a queue or key that one message has blocked for so long is reported, once a message."""
    pull_batch: Annotated[int, Field(ge=1, le=1024)] = 32
    """Messages asked for in one pull. A stock broker hands out no more than 32."""
    cache_count: Live[Annotated[int, Field(ge=1, le=65_535)]] = 1_000
    """Pulled messages that are not settled, per queue: a queue that holds more pulls nothing. The pull that passes this
    brings up to `pull_batch` more."""
    cache_bytes: Live[Annotated[Size, Field(ge=1 << 16)]] = 100 << 20
    """Bytes of pulled messages per queue: a queue that holds more pulls nothing. `app.budget` bounds all queues."""
    topic_count: Live[Annotated[int, Field(ge=1)] | None] = None
    """`cache_count` for all owned queues of a topic together, each with an even share. Empty: no bound of its own."""
    topic_bytes: Live[Annotated[Size, Field(ge=1 << 16)] | None] = None
    """`cache_bytes` for all owned queues of a topic together, each with an even share. Empty: no bound of its own."""
    explicit_ack: bool = False
    """Only `Ack()` is success; a handler that returns nothing is called again later."""
    undecodable: Literal["dead_letter", "retry", "hold", "drop"] = "dead_letter"
    """What becomes of a body that is not what its handler's annotation says: dead_letter, retry, hold or drop."""
    undecodable_max: Annotated[int, Field(ge=0)] = 100
    """So many of them in a row, and the queues are held instead: more likely a bad deploy. 0: never."""
    damaged: Literal["hold", "skip"] = "hold"
    """A stored message whose bytes contradict themselves: hold its queue until a pull brings good ones, or skip it."""
    progress: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")] = "auto"
    """Where messages that ended above an unfinished one are kept, so that a crash repeats none of them: auto (as topic
    once that one has lasted for 2 s, and until then nothing is asked or written; local where there may be no topic),
    topic (one of the group's own, %ACK%GROUP), local (files of this machine), broker (in the box alone, which then
    refuses what a former owner commits late), a plugin's store, or none. docs/reliability.md."""
    once_store: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")] = "memory"
    """Where handlers with `once` remember what they have handled: memory (of this process, at most 100,000 keys a
    handler), sqlite (a file of this machine, through crashes and by all its processes), or a plugin's store."""
    allocation: AllocationSetting = Allocation("averaging")
    """The strategy that divides queues among members, by its name or as {name: {option: value}}; the same in every
    member of a group."""
    trace: bool = False
    """Tell the trace topic of every delivery, for mqadmin queryMsgTraceById and the Dashboard."""
    trace_topic: TopicName = TRACE_TOPIC
    """The topic of the traces. Brokers have the default one where traceTopicEnable is set, or topics are created."""


class BroadcastingSettings(Section):
    folder: Annotated[FileName, Field(min_length=1)] = "~/.framework-app/offsets"
    """Where broadcasting groups keep their offsets. It must outlive the process: in a container, a volume."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]*$")] = ""
    """Tells processes apart that share the folder, and stays the same from start to start. Empty: app.name."""
    java_folder: FileName = ""
    """A Java client's folder, ~/.rocketmq_offsets/CLIENT_ID: a group without a file of ours begins where it was."""


class ProgressSettings(Section):
    folder: Annotated[FileName, Field(min_length=1)] = "~/.framework-app/progress"
    """Where `progress: local` keeps its files, and `auto` and `topic` where there may be no topic. It must outlive the
    process, and processes of one machine share it."""


class OnceSettings(Section):
    folder: Annotated[FileName, Field(min_length=1)] = "~/.framework-app/once"
    """Where `once_store: sqlite` keeps its files, one a group. It must outlive the process, and processes share it."""


class AdminSettings(Section):
    reset: bool = True
    """Let administrators move a group's offsets by asking us. Brokers of 5.2 and later move them without asking."""
    direct: bool = True
    """Let administrators have our handlers run one message at once (mqadmin queryMsgById -g -d, the Dashboard)."""


class LoggingSettings(Section):
    level: Live[Level] = "info"
    """The lowest level that is written: debug, info, warning or error."""
    levels: Live[Mapping[str, Level]] = Field(default_factory=dict)
    """{logger: level} for single loggers of the standard library, which write as all do: {sqlalchemy: warning}. Those
    with a line for each call of something (py4j, httpx, urllib3, ...) begin at warning unless named here."""
    format: Live[Literal["console", "json"]] = "console"
    """console for people, json for collectors. Both go to stderr."""


class PluginsSettings(Section):
    block: Code[Texts] = ()
    """Installed plugins that are not loaded; not even imported."""
    only: Code[Texts | None] = None
    """The only installed plugins that are loaded. Empty: all that are installed and not blocked."""
    local: Code[Texts] = ()
    """Plugins of this application: `package.module` or `package.module:Class`."""
    settings: Mapping[str, Keys] = Field(default_factory=dict, repr=False)
    """{plugin: {key: value}}; each plugin says which keys it has."""


def alike(one: str, other: str) -> bool:
    """Whether two names differ by capitals and hyphens alone, which a variable cannot spell."""
    return one.lower().replace("-", "_") == other.lower().replace("-", "_")


class AppSettings(Section):
    """Everything that a settings file says. `AppSettings()` is what no file at all means."""

    app: ProcessSettings = ProcessSettings()
    """The application as a whole."""
    workers: WorkersSettings = WorkersSettings()
    """The processes of `framework-app run`."""
    cluster: ClusterSettings = ClusterSettings()
    """Where the messages are."""
    consumers: Mapping[GroupName, ConsumerSettings] = Field(default_factory=dict)
    """{group: settings}; a group that is not named here runs with the defaults."""
    broadcasting: BroadcastingSettings = BroadcastingSettings()
    """Consumers with broadcasting=True, which keep their offsets on this machine."""
    progress: ProgressSettings = ProgressSettings()
    """The machine's part of `consumers.GROUP.progress`."""
    once: OnceSettings = OnceSettings()
    """The machine's part of `consumers.GROUP.once_store`."""
    admin: AdminSettings = AdminSettings()
    """What administrators may ask of this process, by way of a broker."""
    logging: LoggingSettings = LoggingSettings()
    """What is logged."""
    plugins: PluginsSettings = PluginsSettings()
    """Which plugins are loaded."""

    _places: Places = PrivateAttr(default_factory=dict)
    _hidden: Hidden = PrivateAttr(default_factory=Hidden)
    _warnings: tuple[str, ...] = PrivateAttr(default=())

    def consumer(self, group: str) -> ConsumerSettings:
        """The settings of a group, the defaults where nothing is said about it.

        A variable cannot spell capitals and hyphens: where it alone names a group, the group that is spelled alike is
        meant (`runtime/build/collect.py` refuses one that may mean several).
        """
        found = self.consumers.get(group)
        if found is None:
            found = next((self.consumers[name] for name in self.spelled_by_variables if alike(name, group)), None)
        return found or ConsumerSettings()

    @property
    def spelled_by_variables(self) -> list[str]:
        """Groups that no file and no option names."""
        found: dict[str, bool] = {}
        for path, place in self._places.items():
            if path[0] == "consumers" and len(path) > 1:
                found[path[1]] = found.get(path[1], True) and place.startswith("$")
        return [name for name in self.consumers if found.get(name, False)]

    def place(self, *path: str) -> str | None:
        """File and line (or variable, or option) where the value at this path was written; None for a default."""
        return self._places.get(path)

    @property
    def hidden(self) -> Hidden:
        """What of plugins' settings is not shown."""
        return self._hidden

    def hide(self, path: tuple[str, ...], kind: type[BaseModel]) -> None:
        """Never show what this model, a plugin's, calls secret in the settings at this path."""
        self._hidden.declare(path, kind)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What works and should not be left so; said at each start."""
        found = list(self._warnings)
        if self.cluster.tls.enabled and not self.cluster.tls.verify:
            found.append("cluster.tls.verify is false: any certificate is trusted, and anybody in between reads along")
        return tuple(found)

    def explain(self, path: tuple[str, ...], kind: type[BaseModel], error: ValidationError) -> ConfigurationMistakes:
        """A plugin's own complaint about its settings, with the places that only the loader knows."""
        return ConfigurationMistakes(translated(error, kind, self._places, path, self._hidden))

    def right_in(self, kind: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
        """What a plugin's model does not complain of in these settings of its."""
        return without_mistaken(kind, values)

    @classmethod
    def parsed(
        cls, values: Mapping[str, Any], places: Places, warnings: Iterable[str] = (), hidden: Hidden | None = None
    ) -> AppSettings | list[ConfigurationError]:
        """Settings from plain values, or every mistake in them."""
        try:
            settings = cls.model_validate(values)
        except ValidationError as error:
            return translated(error, cls, places, hidden=hidden)
        settings._places = dict(places)  # noqa: SLF001  # our own instance, before anybody has seen it
        settings._hidden = hidden or Hidden()  # noqa: SLF001  # likewise
        settings._warnings = tuple(warnings)  # noqa: SLF001  # likewise
        return settings
