"""Where settings come from, and which one wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.errors import ConfigurationError, ConfigurationMistakes
from framework.settings.schema import AppSettings
from framework.settings.sources import CONFIG_VARIABLE, find, load, override


def written(folder: Path, text: str, name: str = "app.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def mistakes_of(*args: object, **options: object) -> list[str]:
    with pytest.raises(ConfigurationMistakes) as caught:
        load(*args, **options)  # type: ignore[arg-type]  # handed through
    return [str(each) for each in caught.value.mistakes]


def test_later_sources_win(tmp_path: Path) -> None:
    file = written(tmp_path, "app: {name: file}\nconsumers: {billing: {concurrency: 1, max_retries: 1, pull_batch: 1}}")
    overlay = written(tmp_path, "consumers: {billing: {concurrency: 2, max_retries: 2}}", "overlay.yaml")
    environment = {"FRAMEWORK_APP__CONSUMERS__BILLING__CONCURRENCY": "3", "OTHER": "x"}

    settings = load(
        file, overlays=[overlay], environment=environment, overrides=[override("consumers.billing.max_retries=4")]
    )

    billing = settings.consumer("billing")
    assert ("file", 3, 4, 1) == (settings.app.name, billing.concurrency, billing.max_retries, billing.pull_batch)


def test_a_variable_finds_a_group_whose_name_it_cannot_spell(tmp_path: Path) -> None:
    file = written(tmp_path, "consumers: {Billing-EU: {concurrency: 1}}")

    settings = load(file, environment={"FRAMEWORK_APP__CONSUMERS__BILLING_EU__CONCURRENCY": "3"})

    assert ["Billing-EU"] == list(settings.consumers)
    assert 3 == settings.consumer("Billing-EU").concurrency


def test_lists_are_replaced_whole(tmp_path: Path) -> None:
    file = written(tmp_path, "cluster: {name_servers: ['a:1', 'b:2', 'c:3']}")

    settings = load(file, environment={"FRAMEWORK_APP__CLUSTER__NAME_SERVERS": "d:4; e:5"})

    assert ("d:4", "e:5") == settings.cluster.name_servers
    assert None is settings.place("cluster", "name_servers", "2")


def test_a_place_is_where_the_winning_value_was_written(tmp_path: Path) -> None:
    file = written(tmp_path, "app:\n  name: x\n  drain: 9s\n")

    settings = load(file, environment={"FRAMEWORK_APP__APP__DRAIN": "8s"}, overrides=[override("logging.level=debug")])

    assert f"{file}:2:3" == settings.place("app", "name")
    assert "$FRAMEWORK_APP__APP__DRAIN" == settings.place("app", "drain")
    assert "--set logging.level" == settings.place("logging", "level")
    assert None is settings.place("plugins", "only")


def test_mistakes_of_all_sources_are_said_at_once(tmp_path: Path) -> None:
    file = written(tmp_path, "app:\n  nmae: x\ncluster: {name_servers: ['${env:GONE}']}\n")
    overlay = written(tmp_path, "a: [", "broken.yaml")

    mistakes = mistakes_of(
        file,
        overlays=[overlay, tmp_path / "missing.yaml"],
        environment={"FRAMEWORK_APP__APP__DRAIN": "soon"},
        overrides=[override("consumers.billing.concurency=4")],
    )

    shown = "\n".join(mistakes)
    for part in (
        f"{file}:2:3: unknown key 'nmae' in app; did you mean 'name'?",
        f"{file}:3:26: cluster.name_servers.0: the environment variable GONE is not set",
        f"{overlay}:2:1: not YAML",
        f"{tmp_path / 'missing.yaml'}: cannot be read",
        "$FRAMEWORK_APP__APP__DRAIN: app.drain: ",
        "--set consumers.billing.concurency: unknown key 'concurency' in consumers.billing; did you mean",
    ):
        assert part in shown


def test_references_are_opened_once_and_in_values_only(tmp_path: Path) -> None:
    """A variable can add no keys and no references, whatever it holds."""
    file = written(tmp_path, "app: {name: 'x-${env:NAME}-$${env:NAME}'}")

    settings = load(file, environment={"NAME": "a\nplugins: {local: [evil]} ${env:HOME}"})

    assert "x-a\nplugins: {local: [evil]} ${env:HOME}-${env:NAME}" == settings.app.name
    assert () == settings.plugins.local


@pytest.mark.parametrize("text", ["${NAME}", "${env:}", "${env:A B}", "${file:/etc/passwd}", "${env:NAME"])
def test_other_references_are_refused(tmp_path: Path, text: str) -> None:
    (mistake,) = mistakes_of(written(tmp_path, f"app: {{name: '{text}'}}"), environment={"NAME": "x"})

    assert "write ${env:NAME}, or $${ for a plain ${" in mistake


def test_a_dollar_is_a_dollar(tmp_path: Path) -> None:
    assert "a$b$$c" == load(written(tmp_path, "app: {name: 'a$b$$c'}"), environment={}).app.name


@pytest.mark.parametrize("text", ["a", "=x", "a..b=c", ".a=b"])
def test_an_assignment_has_a_path_and_a_value(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--set"):
        override(text)


def test_a_file_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "shop"
    folder.mkdir()
    assert None is find(None, {}, folder)

    written(folder, "", "framework-app.yaml")
    assert folder / "framework-app.yaml" == find(None, {}, folder)

    written(tmp_path, "", "framework-app.yaml")
    assert Path("framework-app.yaml") == find(None, {}, folder)

    variable = written(tmp_path, "", "variable.yaml")
    assert variable == find(None, {CONFIG_VARIABLE: str(variable)}, folder)

    option = written(tmp_path, "", "option.yaml")
    assert option == find(str(option), {CONFIG_VARIABLE: str(variable)}, folder)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--config: there is no file"):
        find(str(tmp_path / "gone"), {})
    with pytest.raises(ConfigurationError, match=r"\$FRAMEWORK_APP_CONFIG: there is no file"):
        find(None, {CONFIG_VARIABLE: str(tmp_path / "gone")})


def test_files_are_named_beside_the_file_that_names_them(tmp_path: Path) -> None:
    file = written(tmp_path, "cluster: {tls: {ca_file: ca.pem, cert_file: /etc/cert.pem}}")

    tls = load(file, environment={}).cluster.tls

    assert (str(tmp_path / "ca.pem"), "/etc/cert.pem") == (tls.ca_file, tls.cert_file)


def test_credentials_come_from_a_file_of_their_own(tmp_path: Path) -> None:
    keys = written(tmp_path, "access_key: me\nsecret_key: hush\n", "keys.yaml")
    keys.chmod(0o600)
    file = written(tmp_path, "cluster: {credentials: {file: keys.yaml, access_key: other}}")

    credentials = load(file, environment={}).cluster.credentials

    assert ("other", "hush") == (credentials.access_key, credentials.secret_key.reveal())


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ("secret_key: hush", 0o644, "chmod 600"),
        ("secret: hush", 0o600, "unknown key 'secret'; known here: access_key"),
        ("[", 0o600, "not YAML"),
    ],
)
def test_a_bad_credentials_file_is_refused(tmp_path: Path, text: str, mode: int, reason: str) -> None:
    keys = written(tmp_path, text, "keys.yaml")
    keys.chmod(mode)

    (mistake,) = mistakes_of(written(tmp_path, "cluster: {credentials: {file: keys.yaml}}"), environment={})

    assert reason in mistake
    assert "hush" not in mistake


def test_a_secret_in_the_file_is_warned_of(tmp_path: Path) -> None:
    literal = written(tmp_path, "cluster: {credentials: {access_key: me, secret_key: hush}}")
    reference = written(tmp_path, "cluster: {credentials: {secret_key: '${env:KEY}'}}", "b.yaml")

    (warning,) = load(literal, environment={}).warnings
    assert "cluster.credentials.secret_key stands in the file" in warning
    assert "hush" not in warning
    assert () == load(reference, environment={"KEY": "hush"}).warnings


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_bytes(b"app: {name: \xff}")

    (mistake,) = mistakes_of(path, environment={})

    assert f"{path}: byte 12 is not UTF-8" == mistake


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_bytes(b"#" * (10 << 20))

    (mistake,) = mistakes_of(path, environment={})

    assert "larger than the limit" in mistake


def test_the_process_s_own_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEWORK_APP__APP__NAME", "from-outside")

    assert "from-outside" == load().app.name


@pytest.mark.parametrize("name", ["development.yaml", "production.yaml", "default.yaml"])
def test_the_files_in_config_are_right(name: str) -> None:
    path = Path(__file__).parents[2] / "config" / name
    environment = {"ROCKETMQ_NAME_SERVER": "a:1", "ROCKETMQ_ACCESS_KEY": "k", "ROCKETMQ_SECRET_KEY": "s"}

    assert isinstance(load(path, environment=environment), AppSettings)
