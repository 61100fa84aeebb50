"""What `check` says of a machine or a handler that cannot work, before anything is started. All without a JVM."""

from __future__ import annotations

import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from framework_spark import machine
from framework_spark.functions import takes_a_frame
from framework_spark.mistakes import SparkMissing, SparkMisused
from framework_spark.sessions import SessionsOfThisProcess, reachable
from framework_spark.settings import SparkSettings
from framework_spark.splitting import side_effect_free
from structlog.testing import capture_logs

from framework import Message, consumer
from framework.cli import main
from framework.cli.exit_codes import ExitCode
from framework.errors import ConfigurationError
from framework.hooks.host import PluginHost
from framework.testing import Harness
from tests.reading.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def a_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "bin" / "java").chmod(stat.S_IRWXU)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.mark.parametrize(("version", "found"), [("1.8.0_402", 8), ("11.0.22", 11), ("16", 16)])
def test_a_java_that_is_too_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, found: int
) -> None:
    home = a_java(tmp_path / "old", version)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(SparkMissing, match=f"Java 17 or newer, and JAVA_HOME={home} is Java {found}; set JAVA_HOME"):
        machine.java_here()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(SparkMissing, match=f"bin/java is Java {found}; set JAVA_HOME"):
        machine.java_here()


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_a_java_that_will_do_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "java", version)))
    machine.java_here()


def test_a_spark_that_is_not_pyspark_s_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark starts the JVM of SPARK_HOME, and fails with an error that names neither."""
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(SparkMissing, match=f"SPARK_HOME={tmp_path} has no bin/spark-submit; unset it"):
        machine.spark_here()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spark-submit").touch()
    machine.spark_here()  # whose jars are elsewhere
    (tmp_path / "jars").mkdir()
    mine = tmp_path / "jars" / f"spark-core_2.13-{pyspark.__version__}-vendor-1.jar"
    mine.touch()
    machine.spark_here()
    mine.rename(mine.with_name("spark-core_2.12-3.5.1.jar"))
    with pytest.raises(SparkMissing, match=r"is Spark 3\.5\.1, and pyspark is .*: both must be one release; unset"):
        machine.spark_here()


def test_what_python_lacks_is_named_with_the_command_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "DRIVER_NEEDS", ("pyspark", "nobody_s_package"))
    with pytest.raises(SparkMissing, match="has no nobody_s_package; run pip install framework-app-spark"):
        SessionsOfThisProcess(SparkSettings(remote="sc://nowhere:15002")).check()
    monkeypatch.undo()
    monkeypatch.setattr(machine, "CONNECT_NEEDS", ("nobody_s_client",))
    with pytest.raises(
        SparkMissing, match=r"spark\.remote: .* has no nobody_s_client; run pip install '.*\[connect\]'"
    ):
        SessionsOfThisProcess(SparkSettings(remote="sc://nowhere:15002")).check()
    SessionsOfThisProcess(SparkSettings(session="json:loads")).check()
    monkeypatch.setattr(machine, "version", lambda _: "3.5.8")
    with pytest.raises(SparkMissing, match=r"has pyspark 3\.5\.8, and it takes 4\.2 or newer; run pip install"):
        machine.packages_here(connect=False)


@pytest.mark.parametrize("master", ["locall", "local[two]", "yarn-client", "HOST:7077"])
def test_a_master_that_spark_does_not_know_is_refused_with_those_that_it_does(master: str) -> None:
    with pytest.raises(ValueError, match=r"master: .*: write local\[2,4\], spark://HOST:7077, yarn or k8s://"):
        SparkSettings(master=master)


@pytest.mark.parametrize(
    "master",
    ["local", "local[*]", "local[2]", "local[*,4]", "local[2, 4]", "spark://a:1,b:1", "yarn", "k8s://https://a"],
)
def test_each_master_that_spark_knows_is_taken(master: str) -> None:
    assert master == SparkSettings(master=master).master


@pytest.mark.parametrize(
    ("session", "said"),
    [
        ("nobody_s.module:session", "nobody_s.module:session: ModuleNotFoundError: No module named 'nobody_s'"),
        ("json:session", "json:session: AttributeError"),
        ("json:__name__", r"json:__name__ is .*; name a function that returns the session"),
    ],
)
def test_a_function_for_the_session_that_is_not_there_is_named(session: str, said: str) -> None:
    with pytest.raises(SparkMisused, match=f"plugins.settings.spark.session: {said}"):
        SessionsOfThisProcess(SparkSettings(session=session)).check()


def test_a_cluster_without_a_master_is_named_before_spark_has_tried_for_a_minute() -> None:
    with socket.socket() as taken, socket.create_server(("127.0.0.1", 0)) as there:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        away, open_ = (f"127.0.0.1:{each.getsockname()[1]}" for each in (taken, there))
        with pytest.raises(OSError, match=rf"no master answers \({away}: .*refused.*; {away}: .*\); start"):
            reachable(f"spark://{away},{away}")
        reachable(f"spark://{away},{open_}")
    reachable("local[2]")


def test_where_java_says_why_it_did_not_start_is_said() -> None:
    """As of `master: yarn` without HADOOP_CONF_DIR, or memory that there is not."""
    sessions = Tables(pause_s=0.001)
    made, refused = sessions.make, ["[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."]

    def make() -> Any:
        if refused:
            raise RuntimeError(refused.pop())
        return made()

    sessions.make = make  # type: ignore[method-assign]  # as it fails and then does not
    with capture_logs() as lines:
        sessions.get()

    assert "Java's own words stand above, on stderr" in lines[0]["reason"]
    assert "spark session missing" == lines[0]["event"]


def none() -> None: ...
def two(frame: Any, number: int) -> None: ...
def named(*, frame: Any) -> None: ...
def yields(frame: Any) -> Any:
    yield frame


def of_messages(clicks: list[Message]) -> None: ...
def of_a_body(body: bytes) -> None: ...
def of_a_frame(clicks: DataFrame) -> None: ...
def of_anything(*frames: Any) -> None: ...
def with_a_default(frame: Any, table: str = "a") -> None: ...


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (none, r"it is none\(\) -> 'None'; write def none\(frame\)"),
        (two, r"it is two\(frame: 'Any', number: 'int'\) -> 'None'; write def two\(frame\)"),
        (named, r"write def named\(frame\)"),
        (yields, "return a frame of verdicts, or nothing, and no yield"),
        (of_messages, r"'clicks' is annotated list\[Message\]; write clicks: DataFrame, or remove engine"),
        (of_a_body, "'body' is annotated bytes"),
    ],
)
def test_a_function_that_takes_no_frame_is_refused(function: Callable[..., object], said: str) -> None:
    """`check` said ok, and each message became a dead letter after all its retries."""
    with pytest.raises(ConfigurationError, match=said):
        takes_a_frame(function)


@pytest.mark.parametrize(
    "function", [of_a_frame, of_anything, with_a_default, lambda frame: frame, side_effect_free()(of_a_frame), max]
)
def test_a_function_of_a_frame_is_taken(function: Callable[..., object]) -> None:
    takes_a_frame(function)


APP = """\
from framework import consumer


@consumer("clicks", group="revenue", engine="spark")
def revenue(clicks): ...
"""


@pytest.mark.parametrize(("group", "code"), [("revenu", ExitCode.CONFIGURATION), ("revenue", ExitCode.CLEAN)])
def test_settings_of_a_group_that_has_no_handler_are_refused(
    group: str, code: ExitCode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The group ran in `mode: driver` all the same, and nothing said so."""
    (tmp_path / "clicks_app.py").write_text(APP)
    text = f"plugins: {{settings: {{spark: {{groups: {{{group}: {{mode: source, checkpoint: ck}}}}}}}}}}\n"
    (tmp_path / "a.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "clicks_app", raising=False)

    assert code == main.run(["check", "clicks_app.py", "-c", "a.yaml", "--name-server", "127.0.0.1:1"])
    said = "".join(capsys.readouterr())
    if group == "revenu":
        place = "plugins.settings.spark.groups.revenu: no handler with engine='spark' is in this group"
        assert f"a.yaml:1:39: {place}; did you mean 'revenue'? [FA-S008]" in said
        assert code == main.run(["run", "clicks_app.py", "-c", "a.yaml", "--name-server", "127.0.0.1:1"])
        assert place in "".join(capsys.readouterr())


def test_an_engine_whose_plugin_is_not_there_is_named_with_its_package() -> None:
    consumed = consumer("clicks", group="revenue", engine="spark")(of_a_frame)
    nothing = PluginHost(objects={}, discover=lambda: ())
    with (
        pytest.raises(ConfigurationError, match="no engine 'spark'; pip install framework-app-spark, and load the"),
        Harness(consumed, plugins=nothing),
    ):
        pass


def test_an_engine_whose_settings_are_wrong_is_not_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "clicks_app.py").write_text(APP)
    (tmp_path / "a.yaml").write_text("plugins: {settings: {spark: {master: yarn, remote: 'sc://a:1'}}}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "clicks_app", raising=False)

    assert ExitCode.CONFIGURATION == main.run(["check", "clicks_app.py", "-c", "a.yaml"])
    said = "".join(capsys.readouterr())
    assert "master and remote: give one of them" in said
    assert "no engine 'spark'; its plugin is left out, since its settings are wrong" in said
