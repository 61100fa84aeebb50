"""AppSettings and its sections: every key of a settings file, with its type, unit, default and meaning, and what an
edit of it does while the application runs (`Live`, `Code`, `Guard`; else it waits for a restart).

The only place of defaults; `config/default.yaml` is checked against it. Durations are held as milliseconds, sizes as
bytes. Everything is frozen. `sources.py` knows where a value came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, PrivateAttr, ValidationError, model_validator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource

from framework.core import limits
from framework.core.limits import stop_ms
from framework.errors import ConfigurationError, ConfigurationMistakes
from framework.model.durations import to_text
from framework.settings.consumers import ConsumerSettings
from framework.settings.fields import (
    TOKEN_LENGTH_MAX,
    TOKEN_LENGTH_MIN,
    Address,
    Addresses,
    BrokerLimits,
    Code,
    FileName,
    GroupName,
    Guard,
    Keys,
    Level,
    Listen,
    Live,
    Networks,
    Readable,
    Section,
    Texts,
    is_loopback,
    several,
)
from framework.settings.hidden import Hidden
from framework.settings.mistakes import Places, translated, without_mistaken
from framework.settings.secret import Secret
from framework.settings.units import Duration, Size

SOURCES = "_sources"
"""The argument of `AppSettings` by which `sources.py` hands over what it has read."""


class ProcessSettings(Section):
    name: str = "app"
    """The application's name in logs."""
    handlers: Code[Texts] = ()
    """Modules that hold the consumers: `package.module`, a .py file, or `module:name`. APP on the command line wins."""
    budget: Live[Annotated[Size, Field(ge=1 << 20)]] = limits.BUDGET_BYTES
    """Bytes of pulled messages that this process may hold, all queues together."""
    drain: Live[Duration] = 30_000
    """How long a stop waits for running handlers. Messages that are not done by then are delivered again."""
    killed_after: Live[Annotated[Duration, Field(ge=1)] | None] = None
    """When the supervisor kills after SIGTERM: terminationGracePeriodSeconds, TimeoutStopSec, stop_grace_period.
    `check`, the start and an edit warn where a stop may take longer. Empty: not known."""
    instance: Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$")] = ""
    """A name that this process keeps across restarts and shares with no other process, such as ${env:HOSTNAME}. A
    restart within `grace` then moves no queue. Empty: each start is a new member. Set it in all members of a group or
    in none, and not beside Java members. See docs/reliability.md."""
    grace: Annotated[Duration, Field(le=600_000)] = 10_000
    """How long a named process's queues stay reserved after it is gone. 0s: not at all."""
    protect: bool | None = None
    """Hold back a process that restarts too often: it joins its groups only after it ran steadily for 10s, then 20s, up
    to 5m. It also waits up to 1m where it would change a group more than three times in a minute. Empty: on if
    `instance` is set. true: on, also by the machine's name; one process per machine."""
    control: FileName = "auto"
    """The control socket of `run` and `dev`, for pause, stacks, health and top. auto: one per process, in
    XDG_RUNTIME_DIR or the folder for temporary files; a path: there, also for an App within a program. Empty: none."""
    start_jitter: Annotated[Duration, Field(le=60_000)] = 0
    """Join at a random time within this after the start, and take queues after it. Use 2s where dozens start at
    once."""


class WorkersSettings(Section):
    max_messages: Annotated[int, Field(ge=1)] | None = None
    """Messages after which a process of `run` drains and is replaced, one process at a time. Empty: never."""
    max_memory: Annotated[Size, Field(ge=1 << 24)] | None = None
    """Memory at which a process of `run` drains and is replaced, checked twice per second. Empty: never."""

    @property
    def is_recycled(self) -> bool:
        return self.max_messages is not None or self.max_memory is not None


class CredentialsSettings(Section):
    access_key: Guard[str] = ""
    """The access key. Empty: requests are not signed."""
    secret_key: Guard[Secret] = Secret("")
    """The key that signs requests. Write ${env:NAME}, or use `file`."""
    security_token: Secret = Secret("")
    """A temporary token, for cloud vendors that issue one with the keys."""
    file: FileName = ""
    """A YAML file (mode 0600) with access_key, secret_key and security_token. Its path is relative to this file."""


class TlsSettings(Section):
    enabled: Guard[bool] = False
    """Use TLS to name servers and brokers, and never plain text."""
    verify: Guard[bool] = True
    """Check certificates and host names. false: any certificate is trusted, with a warning at each start."""
    ca_file: FileName = ""
    """Trusted certificates, PEM. Empty: the system's."""
    cert_file: FileName = ""
    """The client certificate, PEM, for servers that ask for one."""
    key_file: FileName = ""
    """The key of the client certificate, PEM."""
    key_password: Secret = Secret("")
    """The password of the key."""
    server_name: str = ""
    """The name that certificates must carry. Empty: the address that is connected to."""


class ClusterSettings(Section):
    name_servers: Annotated[Addresses, Field(min_length=1)] = ("127.0.0.1:9876",)
    """Name servers, host:port, tried in turn."""
    embedded: bool = False
    """Start a built-in broker with `run`, which listens at the one name server here. `dev` always starts its own."""
    embedded_data: FileName = ""
    """The folder where the embedded broker stores everything, relative to this file. Empty: in memory."""
    embedded_limits: BrokerLimits = Field(default_factory=dict)
    """Limits of the embedded broker: {connections: 1024, message: 1MiB}. All are in docs/broker-details.md."""
    address_map: Mapping[Address, Address] = Field(default_factory=dict)
    """{advertised: reachable}, for brokers in containers that advertise addresses this process cannot reach."""
    allow: Networks = ()
    """Networks that brokers may be in, such as 10.0.0.0/8. Empty: all but link-local, metadata and multicast."""
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]*$", max_length=100)] = ""
    """The tenant that all topics and groups belong to. Handlers and settings name them without it."""
    brokers: Texts = ()
    """Brokers that should be there, by name: commands that look miss those that are not. Empty: those seen before."""
    request_timeout: Annotated[Duration, Field(ge=1)] = 3_000
    """How long one request waits for its answer."""
    heartbeat_v2: bool = False
    """Send brokers of 5.1 and later a fingerprint in place of all subscriptions while nothing has changed."""
    wait_broker: Duration | None = None
    """How long startup waits for a cluster; then the process exits with 69. Empty: forever."""
    credentials: CredentialsSettings = CredentialsSettings()
    """Signed requests (ACL)."""
    tls: TlsSettings = TlsSettings()
    """Encryption."""


class BroadcastingSettings(Section):
    folder: Annotated[FileName, Field(min_length=1)] = "~/.framework-app/offsets"
    """Where broadcasting groups store their offsets. It must outlive the process: in a container, use a volume."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]*$")] = ""
    """Distinguishes processes that share the folder. It must not change between starts. Empty: app.name."""
    java_folder: FileName = ""
    """A Java client's folder, ~/.rocketmq_offsets/CLIENT_ID. A group without offsets here starts from those."""


class ProgressSettings(Section):
    folder: Annotated[FileName, Field(min_length=1)] = "~/.framework-app/progress"
    """Where `local` stores its files, and `auto` and `topic` if no topic may be made. It must outlive the process."""
    key: Secret = Secret("")
    """Proves that a record in %ACK%GROUP is a member's; the same for all. Empty: cluster.credentials.secret_key."""


class OnceSettings(Section):
    folder: Annotated[FileName, Field(min_length=1)] = "~/.framework-app/once"
    """Where `once_store: sqlite` stores a file per group. It must outlive the process; processes share it."""


class AdminSettings(Section):
    reset: bool = True
    """Let administrators reset a group's offsets through this process. Brokers of 5.2 and later do it without."""
    direct: bool = True
    """Let administrators run one message through a handler at once (mqadmin queryMsgById -g -d, the Dashboard)."""


class ObserveSettings(Section):
    listen: Guard[Listen] = ""
    """Where /metrics, /live, /ready, /startup and /snapshot are answered by HTTP, host:port, such as 127.0.0.1:9464.
    Empty: nowhere. Needs the extra `observe`."""
    token: Guard[Secret] = Secret("")
    """What requests must carry, `authorization: Bearer TOKEN`. Write ${env:NAME}."""
    public: Guard[Annotated[tuple[Readable, ...], BeforeValidator(several)]] = ()
    """What is read without the token: metrics, probes, snapshot. At an address that other machines reach, without a
    token nothing else is there."""
    hosts: Texts = ()
    """Names by which it may be asked, beside localhost and addresses."""
    dashboard: bool = False
    """Whether `framework-app run` and `dev` have the dashboard at this address, too. Needs `token`, with 20 characters
    or more, and the extra `dashboard`."""
    allow_writes: bool = False
    """Whether its pages may change what they show, after a plan."""

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.listen.rpartition(":")[0].strip("[]"))

    @model_validator(mode="after")
    def _is_closed(self) -> Self:
        """Nothing stands open that nobody locked."""
        if self.listen and not (self.is_loopback or self.token or self.public):
            ways = "give it a token, or write what all may read: public: [metrics, probes]"
            raise ValueError(f"listen {self.listen!r}: other machines reach it; {ways}")
        token = self.token.reveal()
        if not (token.isprintable() and token == token.strip() and len(token) <= TOKEN_LENGTH_MAX):
            raise ValueError(
                f"token: no header can carry it: it has a line break, a control character, a space at an end, or more "
                f"than {TOKEN_LENGTH_MAX} characters"
            )
        if self.dashboard and not (self.listen and len(token) >= TOKEN_LENGTH_MIN):
            opens = f"a token of {TOKEN_LENGTH_MIN} characters or more that opens it"
            raise ValueError(
                f"dashboard: it needs listen, and {opens}; the rest stays open by public: [metrics, probes]"
            )
        if self.allow_writes and not self.dashboard:
            raise ValueError("allow_writes: it is about the dashboard; write dashboard: true, too")
        return self


class LoggingSettings(Section):
    level: Live[Level] = "info"
    """The lowest level that is logged: debug, info, warning or error."""
    levels: Live[Mapping[str, Level]] = Field(default_factory=dict)
    """{logger: level} for single loggers of the standard library: {sqlalchemy: warning}. Their lines look like ours.
    Loggers with a line per call (py4j, httpx, urllib3, ...) start at warning unless named here."""
    format: Live[Literal["console", "json"]] = "console"
    """console for people, json for log collectors. Both go to stderr."""


class PluginsSettings(Section):
    block: Code[Texts] = ()
    """Installed plugins that are not loaded, and not imported."""
    only: Code[Texts | None] = None
    """The only installed plugins that are loaded. Empty: all that are installed and not blocked."""
    local: Code[Texts] = ()
    """Plugins of this application: `package.module` or `package.module:Class`."""
    settings: Mapping[str, Keys] = Field(default_factory=dict, repr=False)
    """{plugin: {key: value}}. Each plugin defines its keys."""


def alike(one: str, other: str) -> bool:
    """Whether two names differ by capitals and hyphens alone, which a variable cannot spell."""
    return one.lower().replace("-", "_") == other.lower().replace("-", "_")


class AppSettings(Section, BaseSettings):  # type: ignore[misc]  # two types of configuration, which are joined
    """All settings. `AppSettings()` has the defaults."""

    app: ProcessSettings = ProcessSettings()
    """The application as a whole."""
    workers: WorkersSettings = WorkersSettings()
    """The processes of `framework-app run`."""
    cluster: ClusterSettings = ClusterSettings()
    """How to reach the brokers."""
    consumers: Mapping[GroupName, ConsumerSettings] = Field(default_factory=dict)
    """{group: settings}. A group that is not named here has the defaults."""
    broadcasting: BroadcastingSettings = BroadcastingSettings()
    """Consumers with broadcasting=True. They store their offsets on this machine."""
    progress: ProgressSettings = ProgressSettings()
    """This machine's part of `consumers.GROUP.progress`."""
    once: OnceSettings = OnceSettings()
    """This machine's part of `consumers.GROUP.once_store`."""
    admin: AdminSettings = AdminSettings()
    """What administrators may ask of this process through a broker."""
    observe: ObserveSettings = ObserveSettings()
    """What others read of the running application by HTTP. See docs/operate/metrics.md."""
    logging: LoggingSettings = LoggingSettings()
    """What is logged."""
    plugins: PluginsSettings = PluginsSettings()
    """Which plugins are loaded."""

    _places: Places = PrivateAttr(default_factory=dict)
    _hidden: Hidden = PrivateAttr(default_factory=Hidden)
    _warnings: tuple[str, ...] = PrivateAttr(default=())

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The sources that `sources.py` has read, the strongest first; without them what the caller passes.

        The library's own sources for files and variables cannot tell where a value stands, and would read the process's
        environment behind the back of whoever makes settings for a test or for a second application.
        """
        assert isinstance(init_settings, InitSettingsSource)
        sources: tuple[PydanticBaseSettingsSource, ...] | None = init_settings.init_kwargs.pop(SOURCES, None)
        return (init_settings,) if sources is None else sources

    def consumer(self, group: str) -> ConsumerSettings:
        """The settings of a group, or the defaults if it has none.

        A variable cannot spell capitals and hyphens. If only a variable names a group, it means the group whose name
        differs by these alone (`runtime/plans/collect.py` rejects a name that fits several).
        """
        found = self.consumers.get(group)
        if found is None:
            found = next((self.consumers[name] for name in self.spelled_by_variables if alike(name, group)), None)
        return found or ConsumerSettings()

    @property
    def spelled_by_variables(self) -> list[str]:
        """Groups that only variables name."""
        found: dict[str, bool] = {}
        for path, place in self._places.items():
            if path[0] == "consumers" and len(path) > 1:
                found[path[1]] = found.get(path[1], True) and place.startswith("$")
        return [name for name in self.consumers if found.get(name, False)]

    def place(self, *path: str) -> str | None:
        """Where the value at this path was written, or else the first one below it: file and line, variable, or option.
        None for a default.
        """
        below = (place for each, place in self._places.items() if each[: len(path)] == path)
        return self._places.get(path) or next(below, None)

    @property
    def hidden(self) -> Hidden:
        """Which settings of plugins are not shown."""
        return self._hidden

    def hide(self, path: tuple[str, ...], kind: type[BaseModel]) -> None:
        """Never show the fields that a plugin's model, for the settings at this path, declares as secret."""
        self._hidden.declare(path, kind)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Settings that work but should be changed; logged at each start."""
        found = list(self._warnings)
        if self.cluster.tls.enabled and not self.cluster.tls.verify:
            found.append("cluster.tls.verify is false: any certificate is trusted, so others can read the traffic")
        app, takes_ms = self.app, stop_ms(self.app.drain, self.cluster.request_timeout)
        if app.killed_after is not None and takes_ms > app.killed_after:
            found.append(
                f"app.drain is {to_text(app.drain)}, so a stop may take {to_text(takes_ms)}, but the process is killed "
                f"after {to_text(app.killed_after)} (app.killed_after): give it more time, or drain less long"
            )
        return tuple(found)

    def explain(self, path: tuple[str, ...], kind: type[BaseModel], error: ValidationError) -> ConfigurationMistakes:
        """A plugin's errors about its settings, with the places where they were written."""
        return ConfigurationMistakes(translated(error, kind, self._places, path, self._hidden))

    def right_in(self, kind: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
        """The values that a plugin's model accepts."""
        return without_mistaken(kind, values)

    @classmethod
    def parsed(
        cls, values: Mapping[str, Any], places: Places, warnings: Iterable[str] = (), hidden: Hidden | None = None
    ) -> AppSettings | list[ConfigurationError]:
        """Settings from plain values, or all errors in them."""
        try:
            settings = cls.model_validate(values)
        except ValidationError as error:
            return translated(error, cls, places, hidden=hidden)
        settings._places = dict(places)  # noqa: SLF001  # our own instance, before anybody has seen it
        settings._hidden = hidden or Hidden()  # noqa: SLF001  # likewise
        settings._warnings = tuple(warnings)  # noqa: SLF001  # likewise
        return settings
