"""The mistakes that show when it runs: each is said once, the cause first, and not again each second.

Addresses, times and names of members differ by the run and are left out; nothing else is.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

import pytest
import trustme

from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.net.tls import CLOSED_IN_HANDSHAKE, SILENT_CLOSE_HINT, TlsOptions
from tests.cli.processes import ROOT, Command, command
from tests.cli.test_usual_mistakes import SHOP, in_folder, plain, said
from tests.ports import free_port
from tests.reading.threads import thread_box

CHECK_SERVER = "remedy='check cluster.name_servers and cluster.tls.enabled; it is tried again until it answers'"
RAISES = SHOP.replace("None: ...", 'None:\n    raise ValueError("no such customer")')
HANGS = SHOP.replace("None: ...", "None:\n    print('it hangs', flush=True)\n    Event().wait()").replace(
    "from framework", "from threading import Event\n\nfrom framework", 1
)


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Command]:
    """`framework-app ARGUMENTS` there, with both its streams as one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "framework", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    try:
        yield Command(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def until(run: Command, words: str) -> None:
    while words not in run.line():
        pass


def send(box: str, *words: str) -> None:
    assert ExitCode.CLEAN == main.run(["send", *words, "--name-server", box])


def warnings(run: Command, folder: Path) -> list[str]:
    return [
        plain(line, folder)
        for line in run.lines
        if "[info " not in line and not line.startswith(("drained: ", "ready: "))
    ]


def without_place(line: str) -> str:
    """The line without which message it was, and where it lay."""
    line = re.sub(r"message_id=[0-9A-F]{32}", "message_id=MESSAGE", line)
    return re.sub(r"queue=orders@broker-a:\d", "queue=QUEUE", line)


def said_in_seconds(folder: Path, *arguments: str) -> list[str]:
    """The warnings of a run that has named its trouble, and then had some seconds to name it again."""
    with running(folder, "run", "shop.py", *arguments) as run:
        until(run, "not connected")
        time.sleep(3)  # that nothing is said again can only be waited for
        assert ExitCode.CLEAN == run.end(signal.SIGINT)
    return warnings(run, folder)


@pytest.fixture
def with_tls(tmp_path: Path) -> Iterator[str]:
    """The address of a broker with TLS."""
    certificate = tmp_path / "own.pem"
    certificate.touch(mode=0o600)
    trustme.CA().issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
    with thread_box(tls=TlsOptions(cert_file=str(certificate))) as box:
        yield box.address


def test_a_host_that_nobody_knows_is_said_once_and_asked_for_again(tmp_path: Path) -> None:
    folder = in_folder(tmp_path, {"shop.py": SHOP})
    with running(folder, "run", "shop.py", "--name-server", "nowhere.invalid:9876") as run:
        until(run, "not connected")
        assert ExitCode.CLEAN == run.end(signal.SIGINT)

    reason = "reason='no such host: its name has no address'"
    assert [
        f"[warning ] not connected id=FA-N106 peer=nowhere.invalid:9876 {reason} {CHECK_SERVER}",
    ] == warnings(run, folder)


def test_a_port_where_nothing_listens_is_said_once_also_in_several_seconds(tmp_path: Path) -> None:
    """A broker that is down at the start: the application waits for it."""
    lines = said_in_seconds(in_folder(tmp_path, {"shop.py": SHOP}), "--name-server", "127.0.0.1:9")

    reason = "reason='connection refused'"
    assert [f"[warning ] not connected id=FA-N106 peer=ADDRESS {reason} {CHECK_SERVER}"] == lines


def test_an_application_that_is_there_before_its_broker_has_started_when_that_has_taken_its_heartbeat(
    tmp_path: Path,
) -> None:
    folder, port = in_folder(tmp_path, {"shop.py": SHOP}), str(free_port())
    with running(folder, "run", "shop.py", "--name-server", f"127.0.0.1:{port}") as run:
        until(run, "not connected")
        with command("broker", "--memory", "--port", port, folder=tmp_path) as broker:
            broker.until("broker: ready")
            until(run, "ready: ")
            assert ExitCode.CLEAN == run.end(signal.SIGINT)

    order = [name for line in run.lines for name in ("not connected", "connected", "app started", "ready: ")
             if re.search(rf"(\] |^){name}", line)]  # fmt: skip
    assert ["not connected", "connected", "app started", "ready: "] == list(dict.fromkeys(order))
    assert "after_ms=" in next(line for line in run.lines if "] connected" in line)


def test_wrong_keys_are_said_once_with_the_remedy_and_nothing_is_connected_or_started(tmp_path: Path) -> None:
    keys = tmp_path / "keys.yaml"
    with command("broker", "--memory", "--auth", str(keys), "--bind", "127.0.0.1", folder=tmp_path) as broker:
        address = broker.until("broker: ready").split("namesrv=")[1].split()[0]
        options = [f"cluster.credentials.{each}=wrong" for each in ("access_key", "secret_key")]
        folder = in_folder(tmp_path, {"shop.py": SHOP})
        words = [word for option in options for word in ("--set", option)]
        with running(folder, "run", "shop.py", "--name-server", address, *words) as run:
            until(run, "check cluster.credentials")
            assert ExitCode.CLEAN == run.end(signal.SIGINT)

    shown = "\n".join(run.lines)
    assert "app started" not in shown
    assert "] connected" not in shown
    (line,) = [line for line in warnings(run, folder) if "setting unsafe" not in line]
    assert "check cluster.credentials" in line


def test_giving_up_on_a_broker_is_an_error_with_the_address(tmp_path: Path) -> None:
    arguments = ("--name-server", "127.0.0.1:9", "--wait-broker", "300ms")
    code, lines, _ = said(in_folder(tmp_path, {"shop.py": SHOP}), "run", "shop.py", *arguments)

    assert ExitCode.UNREACHABLE == code
    assert [
        f"[warning ] not connected id=FA-N106 peer=ADDRESS reason='connection refused' {CHECK_SERVER}",
        (
            "error: no broker accepted a heartbeat within 300ms (name servers ADDRESS); check cluster.name_servers, "
            "or raise cluster.wait_broker [FA-C001]"
        ),
        "hint: framework-app explain FA-C001",
    ] == lines


AWAY = [["lag"], ["topics"], ["groups"], ["tail", "orders"], ["send", "orders", "hi"], ["dlq", "list", "g"], ["doctor"],
        ["trace", "M1"], ["reset", "g", "--to", "earliest", "--dry-run"]]  # fmt: skip


def beginning(words: Sequence[str]) -> str:
    """A producer's error names the topic first."""
    return f"send to {words[1]}: " if words[0] == "send" else ""


@pytest.mark.parametrize("words", AWAY, ids=" ".join)
def test_each_command_says_the_same_where_nothing_listens(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ExitCode.UNREACHABLE == main.run([*words, "--name-server", "127.0.0.1:9"])
    assert [
        (
            f"error: {beginning(words)}no name server answers: 127.0.0.1:9: connection refused; check "
            "cluster.name_servers (--name-server) [FA-C002]"
        ),
        "hint: framework-app explain FA-C002",
    ] == capsys.readouterr().err.splitlines()


def test_a_broker_that_dies_in_the_middle_is_said_once(tmp_path: Path) -> None:
    folder = in_folder(tmp_path, {"shop.py": SHOP})
    with command("broker", "--memory", folder=tmp_path) as broker:
        address = broker.until("broker: ready").split("namesrv=")[1].split()[0]
        with running(folder, "run", "shop.py", "--name-server", address, "--set", "app.drain=1s") as run:
            until(run, "queue positioned")
            broker.process.kill()
            until(run, "not connected")
            run.end(signal.SIGINT)

    first, *others = warnings(run, folder)
    # The kernel chooses, and what comes first: the end of a connection, or that there is no other.
    how = r"closed by the peer|connection lost: \[Errno 104\] Connection reset by peer|connection refused"
    assert re.fullmatch(
        rf"\[warning \] not connected id=FA-N106 peer=ADDRESS reason='({how})' {re.escape(CHECK_SERVER)}", first
    )
    assert not [line for line in others if "flush failed" not in line], "nothing that follows from it"


def test_plain_on_a_port_of_tls_is_said_once_and_names_tls(tmp_path: Path, with_tls: str) -> None:
    """Each connection is made and closed: to say each would be a line a second."""
    lines = said_in_seconds(in_folder(tmp_path, {"shop.py": SHOP}), "--name-server", with_tls)

    reason = f"closed by the peer{SILENT_CLOSE_HINT}"
    assert [f"[warning ] not connected id=FA-N106 peer=ADDRESS reason='{reason}' {CHECK_SERVER}"] == lines


def test_tls_on_a_plain_port_is_said_once_and_names_tls(tmp_path: Path, box: str) -> None:
    arguments = ("--name-server", box, "--set", "cluster.tls.enabled=true")
    lines = said_in_seconds(in_folder(tmp_path, {"shop.py": SHOP}), *arguments)

    reason = f"reason='{CLOSED_IN_HANDSHAKE}'"
    assert [f"[warning ] not connected id=FA-N106 peer=ADDRESS {reason} {CHECK_SERVER}"] == lines


@pytest.mark.parametrize("words", [("lag",), ("tail", "orders"), ("doctor",), ("send", "orders", "hi")], ids=str)
def test_each_command_says_the_same_of_a_port_of_the_other_kind(
    words: tuple[str, ...], box: str, with_tls: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert ExitCode.UNREACHABLE == main.run([*words, "--name-server", with_tls])
    check, hint = "check cluster.name_servers (--name-server) [FA-C002]", "hint: framework-app explain FA-C002"
    said = f"error: {beginning(words)}no name server answers"
    wrong = f"{said}: {with_tls}: closed by the peer{SILENT_CLOSE_HINT}; {check}"
    assert [wrong, hint] == capsys.readouterr().err.splitlines()

    monkeypatch.setenv("FRAMEWORK_APP__CLUSTER__TLS__ENABLED", "true")
    assert ExitCode.UNREACHABLE == main.run([*words, "--name-server", box])
    lines = [line for line in capsys.readouterr().err.splitlines() if "protocol violated" not in line]  # says the box
    assert [f"{said}: {box}: {CLOSED_IN_HANDSHAKE}; {check}", hint] == lines


def test_a_port_that_is_taken_names_it_and_the_way_out(tmp_path: Path, box: str) -> None:
    folder = in_folder(tmp_path, {"shop.py": SHOP})
    port = box.rpartition(":")[2]
    code, lines, _ = said(folder, "run", "shop.py", "--name-server", box, "--set", "cluster.embedded=true")

    taken = [
        "error: ADDRESS: another process listens there; end it, or choose another port [FA-B002]",
        "hint: framework-app explain FA-B002",
    ]
    assert (ExitCode.TAKEN, taken) == (code, lines)
    for words in (["broker", "--memory"], ["dev", "shop.py"]):
        code, lines, _ = said(folder, *words, "--port", port)
        assert (ExitCode.TAKEN, taken) == (code, lines)
    code, lines, _ = said(folder, "run", "shop.py", "--name-server", box, "--set", f"observe.listen={box}")
    text = "observe.listen 'ADDRESS': another process listens there; give each application its own"
    assert (ExitCode.TAKEN, [f"error: {text} [FA-S017]", "hint: framework-app explain FA-S017"]) == (code, lines)


def test_a_handler_that_raises_shows_its_line_and_its_error(tmp_path: Path, box: str) -> None:
    folder = in_folder(tmp_path, {"shop.py": RAISES})
    send(box, "orders", '{"total": 1}', "--key", "k1")
    arguments = ("--name-server", box, "--set", "consumers.billing.start=first")
    with running(folder, "run", "shop.py", *arguments) as run:
        until(run, "ValueError: no such customer\n".strip())
        until(run, "  ValueError: no such customer")
        run.end(signal.SIGINT)

    line, *rest = warnings(run, folder)
    frames = takewhile(lambda each: "handler failed" not in each, rest)  # its retry may have come
    assert (
        "[warning ] handler failed attempt=1 error='ValueError: no such customer' group=billing id=FA-A106 "
        "message_id=MESSAGE offset=0 queue=QUEUE topic=orders" == without_place(line)
    )
    assert [
        '  shop.py:6 in bill: raise ValueError("no such customer")', "  ValueError: no such customer",
    ] == [f" {frame}" if not frame.startswith("  ") else frame for frame in frames]  # fmt: skip


def test_a_body_that_is_no_json_says_where_and_what_becomes_of_it(tmp_path: Path, box: str) -> None:
    folder = in_folder(tmp_path, {"shop.py": SHOP})
    send(box, "orders", '{"total": ', "--key", "k1")
    with running(folder, "run", "shop.py", "--name-server", box, "--set", "consumers.billing.start=first") as run:
        until(run, "message dead-lettered")
        run.end(signal.SIGINT)

    reason = "reason='not a dict: not JSON: Expecting value: line 1 column 11 (char 10)'"
    assert [
        (
            "[warning ] body undecodable attempt=1 group=billing id=FA-Q102 in_a_row=1 message_id=MESSAGE offset=0 "
            f"queue=QUEUE {reason} then=dead_letter topic=orders"
        ),
        (
            "[warning ] message dead-lettered attempts=1 error=BodyUndecodable group=billing id=FA-A112 keys=['k1'] "
            f"message_id=MESSAGE offset=0 queue=QUEUE {reason} topic=orders"
        ),
    ] == list(map(without_place, warnings(run, folder)))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_first_ctrl_c_says_what_it_waits_for_and_a_second_leaves(workers: str, tmp_path: Path, box: str) -> None:
    folder = in_folder(tmp_path, {"shop.py": HANGS})
    send(box, "orders", '{"total": 1}')
    arguments = ("--name-server", box, "--set", "consumers.billing.start=first", "--workers", workers)
    with running(folder, "run", "shop.py", *arguments) as run:
        until(run, "it hangs")
        run.process.send_signal(signal.SIGINT)
        until(run, "handlers awaited")
        waits = plain(run.lines[-1], folder)
        assert re.fullmatch(r"\[info \] handlers awaited processes=[12] reason='a second signal exits at once'", waits)
        assert ExitCode.LEFT_AT_ONCE == run.end(signal.SIGINT)
