"""The plugin in an application: with the Harness, and as a process that is killed."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from framework_outbox import Outbox, outbox  # noqa: F401 - handlers are given it by its name
from framework_outbox.plugin import OutboxPlugin
from framework_outbox.settings import OutboxSettings

from framework import Message, consumer, resource
from framework.broker.intercept import Interceptor
from framework.broker.store.topics import Topic
from framework.errors import ConfigurationError, ConfigurationMistakes
from framework.hooks.host import GROUP, PluginHost
from framework.reading import Reader, ReaderSettings, decode_properties
from framework.runtime.logs.setup import secrets_of
from framework.settings.changes import changes
from framework.settings.explain import explained
from framework.settings.schema import AppSettings, PluginsSettings
from framework.testing import Harness
from framework.wire.codes import RequestCode
from tests.cli.processes import Command, command
from tests.reading.threads import ThreadBox, texts, thread_box


def host_with(**settings: object) -> PluginHost:
    entry = EntryPoint("outbox", "framework_outbox.plugin:OutboxPlugin", GROUP)
    chosen = AppSettings(plugins=PluginsSettings(settings={"outbox": settings}))
    return PluginHost(chosen.plugins, chosen, discover=lambda: [entry])


def test_the_plugin_is_installed_under_its_name() -> None:
    found = [entry.value for entry in entry_points(group=GROUP) if entry.name == "outbox"]

    assert ["framework_outbox.plugin:OutboxPlugin"] == found


def test_without_a_database_no_message_is_asked_anything() -> None:
    assert () == host_with().calls.around
    assert 1 == len(host_with(database="shop.db").calls.around)


def test_the_database_is_secret_wherever_settings_are_shown() -> None:
    """It may have a password; written so that neither its key nor its form tells."""
    before, after = (
        AppSettings(plugins=PluginsSettings(settings={"outbox": {"database": where, "interval": "1s"}}))
        for where in ("hush-1.db", "hush-2.db")
    )
    entry = EntryPoint("outbox", "framework_outbox.plugin:OutboxPlugin", GROUP)
    PluginHost(before.plugins, before, discover=lambda: [entry])

    assert ["plugins.settings.outbox.database: *** -> ***"] == [str(each) for each in changes(before, after)]
    shown = {each.name: each.value for each in explained(before)}
    assert {"***", "1s"} == {shown[f"plugins.settings.outbox.{key}"] for key in ("database", "interval")}
    assert ["hush-1.db"] == secrets_of(before)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"database": "mysql://shop"}, "database: mysql is not known; write a file of SQLite, or postgresql://..."),
        ({"lease": "10s"}, "lease (10000 ms) is shorter than 2 times timeout (10000 ms)"),
        ({"retry_first": "1m", "retry_max": "1s"}, "retry_max is shorter than retry_first"),
        ({"table": "1;"}, "table '1;': use letters"),
        ({"tabel": "outbox"}, "tabel"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigurationMistakes) as raised:
        host_with(**settings)
    assert reason in str(raised.value)


def test_postgresql_without_its_driver_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(ConfigurationMistakes, match=r"PostgreSQL needs psycopg .*framework-app-outbox\[postgresql\]"):
        host_with(database="postgresql://shop@db/shop")


def test_a_password_is_shown_nowhere() -> None:
    plugin = OutboxPlugin(OutboxSettings(database="postgresql://shop:geheim@db:5432/shop"))  # type: ignore[arg-type]  # it is checked

    assert "postgresql://db:5432/shop" == str(plugin.table())
    assert "geheim" not in f"{plugin.settings!r} {plugin.table()!r}"


def test_the_readme_s_example_is_right() -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text()
    names: dict[str, Any] = {}
    exec(compile(text.split("```python\n")[1].split("```")[0], "README.md", "exec", dont_inherit=True), names)

    assert ["body", "resource", "resource"] == [each.wants for each in names["invoice"].spec.arguments]
    for setting in OutboxSettings.model_fields:
        assert f"`{setting}`" in text


def test_the_readme_s_example_announces_what_it_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[1] / "README.md").read_text()
    names: dict[str, Any] = {}
    exec(compile(text.split("```python\n")[1].split("```")[0], "README.md", "exec", dont_inherit=True), names)
    monkeypatch.chdir(tmp_path)
    INVOICES.clear()

    with Harness([names["invoice"], mail], plugins=host_with(database="shop.db")) as desk:
        desk.send("orders", json.dumps({"number": "17", "cents": 250, "customer": "ana"}))
        desk.settle()
        desk.sleep("5s")
        desk.settle()

    assert [(b"250 cents", ["17"])] == [(message.body, message.keys) for message in INVOICES]
    with closing(sqlite3.connect("shop.db")) as connection:
        assert [("17", 250)] == connection.execute("SELECT * FROM invoices").fetchall()


# In an application

PLACES: dict[str, Path] = {}


@resource(scope="message")
def transaction() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(PLACES["database"])
    connection.execute("CREATE TABLE IF NOT EXISTS invoices (number TEXT)")
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@consumer("orders", "invoicing")
def invoice(order: str, message: Message, transaction: sqlite3.Connection, outbox: Outbox) -> None:  # noqa: F811 - likewise
    transaction.execute("INSERT INTO invoices VALUES (?)", (order,))
    outbox.add(transaction, Message("invoices", order), key=order)
    if order == "unlucky" and message.attempt == 1:
        raise RuntimeError("the printer is on fire")


INVOICES: list[Message] = []


@consumer("invoices", "mail")
def mail(invoice: Message) -> None:
    INVOICES.append(invoice)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    PLACES["database"] = tmp_path / "shop.db"
    INVOICES.clear()
    return tmp_path / "shop.db"


def test_what_is_committed_is_announced_and_what_is_rolled_back_is_not(database: Path) -> None:
    with Harness([invoice, mail], plugins=host_with(database=str(database))) as desk:
        desk.send("orders", "lucky")
        desk.send("orders", "unlucky")
        desk.settle()
        desk.sleep("5s")
        desk.settle()

    assert ["lucky", "unlucky"] == sorted(message.body.decode() for message in INVOICES)
    connection = sqlite3.connect(database)
    assert [("lucky",), ("unlucky",)] == connection.execute("SELECT number FROM invoices ORDER BY number").fetchall()
    assert [(2, 2)] == connection.execute("SELECT count(*), count(DISTINCT message_id) FROM outbox").fetchall()
    connection.close()


def test_the_resource_says_when_the_plugin_is_not_there(database: Path) -> None:
    with (
        pytest.raises(Exception, match=r"the plugin 'outbox' is not loaded"),
        Harness(invoice, plugins=PluginHost(discover=list)),
    ):
        pass


def test_one_that_only_writes_sends_nothing(database: Path) -> None:
    with Harness([invoice, mail], plugins=host_with(database=str(database), relay="false")) as desk:
        desk.send("orders", "lucky")
        desk.settle()
        desk.sleep("1m")

    assert [] == INVOICES
    assert "waiting  1, the oldest for" in said("status", database=database)


def test_a_stop_waits_for_what_the_relay_has_under_way(database: Path) -> None:
    """It was left to its claim before: sent a lease later, or twice."""
    with Harness([invoice, mail], plugins=host_with(database=str(database))) as desk:
        desk.send("orders", "one")
        desk.settle()
        desk.sleep("5s")
        assert desk._cluster.broker.broker is not None
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE):
            desk._cluster.broker.broker.intercept(Interceptor(code=code, delay_ms=2_000, times=None))
        connection = sqlite3.connect(database)
        with connection:
            Outbox().add(connection, Message("invoices", "two"), key="two")
        desk.sleep("1s")
        claimed = "SELECT count(*) FROM outbox WHERE claimed_by IS NOT NULL"
        assert (1,) == connection.execute(claimed).fetchone(), "it is under way"

    assert [("sent", 2)] == connection.execute("SELECT state, count(*) FROM outbox GROUP BY state").fetchall()
    connection.close()


# The command


def said(*arguments: str, database: Path) -> str:
    parser, shown = ArgumentParser(), StringIO()
    chosen = OutboxPlugin(OutboxSettings(database=str(database))).register_commands()["outbox"]  # type: ignore[arg-type]  # it is checked
    chosen.add_options(parser)
    with redirect_stdout(shown):
        assert 0 == chosen.execute(parser.parse_args(arguments), None)
    return shown.getvalue()


def test_the_command_shows_and_changes_what_waits(tmp_path: Path) -> None:
    database = tmp_path / "shop.db"
    assert said("sql", database=database).startswith("CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY")
    connection = sqlite3.connect(database)
    connection.executescript(said("sql", database=database))
    with connection:
        for body in ("bad", "behind"):
            Outbox().add(connection, Message("invoices", body), key="K")
        connection.execute("UPDATE outbox SET state = 'refused', reason = 'too large' WHERE id = 1")
    connection.close()

    shown = said("status", database=database)
    assert "refused  1\n  1  " in shown
    assert " to invoices key K, 1 behind it: too large\n" in shown
    status = json.loads(said("status", "--json", database=database))
    assert (1, 1, "too large") == (status["waiting"], status["refused"], status["refused_rows"][0]["reason"])
    assert "1 to be sent again\n" == said("retry", "--all", database=database)
    assert "0 discarded\n" == said("discard", "--id", "1", database=database)
    assert json.loads(said("status", "--json", database=database))["waiting"] == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["retry"], "outbox retry: write --id 17 for each row, or --all"),
        (["discard", "--all"], "outbox discard: write --id 17 for each row; each one is lost"),
        (["status", "--id", "1"], "--id and --all are for retry and discard"),
        (["sql", "--json"], "--json is for status"),
    ],
)
def test_the_command_says_what_it_cannot_do(arguments: list[str], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        said(*arguments, database=tmp_path / "shop.db")


# Killed

SHOP = """
import sqlite3

from framework_outbox import Outbox, outbox  # noqa: F401 - handlers are given it by its name

from framework import Message, consumer, resource


@resource(scope="message")
def transaction():
    connection = sqlite3.connect("shop.db", timeout=120)
    connection.execute("CREATE TABLE IF NOT EXISTS invoices (number TEXT PRIMARY KEY)")
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@consumer("orders", "invoicing")
def invoice(order: str, transaction: sqlite3.Connection, outbox: Outbox) -> None:
    transaction.execute("INSERT OR IGNORE INTO invoices VALUES (?)", (order,))
    outbox.add(transaction, Message("invoices", order), key=f"customer {int(order[1:]) % 5}")
"""
SETTINGS = """
app: {name: shop, handlers: [shop]}
consumers: {invoicing: {start: first}}
plugins: {settings: {outbox: {database: shop.db, timeout: 500ms, lease: 1s, interval: 50ms, batch: 20, senders: 4}}}
"""


def row_of(path: Path, sql: str) -> Any:
    with closing(sqlite3.connect(path, timeout=120)) as connection:
        (found,) = connection.execute(sql).fetchall()
    return found


def arrived(box: ThreadBox) -> list[list[tuple[str, str, str]]]:
    """Of each queue: body, message id and key, in the order in which they are stored."""
    with Reader(ReaderSettings((box.address,))) as reader:
        return [
            [
                (str(body or b"", "utf-8"), (found := decode_properties(written))["UNIQ_KEY"], found["__SHARDINGKEY"])
                for columns in reader.read(queue, 0, reader.max_offset(queue))
                for body, written in zip(columns.bodies, columns.properties, strict=True)
            ]
            for queue in reader.queues("invoices")
        ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("workers", "kills"),
    [
        pytest.param((), 2, id="one process"),
        pytest.param((), 12, marks=pytest.mark.slow, id="often"),
        pytest.param(("--workers", "2"), 6, marks=pytest.mark.slow, id="two workers"),
    ],
)
def test_killed_at_any_moment_nothing_is_lost_and_repeats_have_the_same_id(
    tmp_path: Path, workers: tuple[str, ...], kills: int
) -> None:
    each = 30
    orders = kills * each
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "framework-app.yaml").write_text(SETTINGS)
    path = tmp_path / "shop.db"
    with thread_box() as box:
        for node in box.broker.nodes:
            for topic in ("orders", "invoices"):
                box.call(partial(node.rules.add, Topic(name=topic, read_queues=4, write_queues=4)))
        run = ("run", "--name-server", box.address, *workers)
        for kill in range(kills):
            box.send("orders", texts("orders", each, start=kill * each))
            with command(*run, folder=tmp_path) as running:
                wait_for(path, f"SELECT count(*) > {kill * each + (3 + 7 * kill) % each} FROM invoices", running)
                running.signal_group(signal.SIGKILL)
                running.process.wait()
        with command(*run, folder=tmp_path) as running:
            running.until(
                "ready: "
            )  # the killed ones may have done it all, and who comes up may be killed by a SIGTERM
            wait_for(path, f"SELECT count(*) = {orders} FROM invoices", running)
            wait_for(path, "SELECT count(*) = 0 FROM outbox WHERE state <> 'sent'", running)
            assert 0 == running.end()
        queues = arrived(box)

    bodies = [body for queue in queues for body, _, _ in queue]
    assert {f"m{number}" for number in range(orders)} == set(bodies), "none is lost, and none made up"
    assert orders == len({message_id for queue in queues for _, message_id, _ in queue}), "a repeat has its first's id"
    connection = sqlite3.connect(path)
    for customer in range(5):
        key = f"customer {customer}"
        stored = [list(dict.fromkeys(body for body, _, mine in queue if mine == key)) for queue in queues]
        written = connection.execute("SELECT body FROM outbox WHERE ordering_key = ? ORDER BY id", (key,)).fetchall()
        in_order = list(dict.fromkeys(body.decode() for (body,) in written))
        assert [in_order] == [each for each in stored if each], "one queue, in the order of writing"
    connection.close()


def wait_for(path: Path, question: str, running: Command) -> None:
    def holds() -> object:
        try:
            return row_of(path, question)[0]
        except sqlite3.OperationalError:
            return None  # nothing has been written yet

    running.wait_until(holds, question)
