"""Where settings come from, and which one wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.errors import ConfigurationError, ConfigurationMistakes
from framework.runtime.plans.collect import unknown_groups
from framework.settings.hidden import Hidden
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


def test_a_variable_names_a_group_that_the_file_does_not(tmp_path: Path) -> None:
    """Groups are handlers' affair, and most have no settings; a variable cannot spell their capitals and hyphens."""
    variable = {"FRAMEWORK_APP__CONSUMERS__ORDER_DESK__CONCURRENCY": "3"}

    settings = load(written(tmp_path, "app: {name: x}"), environment=variable)

    assert [3, 3, 3, 20] == [
        settings.consumer(group).concurrency for group in ("order_desk", "order-desk", "Order-Desk", "orders")
    ]
    assert [] == unknown_groups(settings, ["Order-Desk", "stock"])
    (mistake,) = unknown_groups(settings, ["Order-Desk", "order_DESK"])
    assert "may mean group Order-Desk or order_DESK" in str(mistake)
    assert "no consumer is in this group" in str(unknown_groups(settings, ["stock"])[0])
    of_file = load(written(tmp_path, "consumers: {order_desk: {}}"), environment={})
    assert "no consumer is in this group; did you mean" in str(unknown_groups(of_file, ["order-desk"])[0])


def test_a_variable_that_may_mean_two_groups_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, "consumers: {a-b: {}, A_B: {}}")

    (mistake,) = mistakes_of(file, environment={"FRAMEWORK_APP__CONSUMERS__A_B__CONCURRENCY": "3"})

    assert "$FRAMEWORK_APP__CONSUMERS__A_B__CONCURRENCY: consumers: A_B may mean a-b or A_B; use --set" in mistake


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"overrides": [override("cluster={tls: {enabled: perhaps}}")]}, "--set cluster"),
        ({"environment": {"FRAMEWORK_APP__CLUSTER": "{tls: {enabled: perhaps}}"}}, "$FRAMEWORK_APP__CLUSTER"),
    ],
)
def test_what_a_mapping_gives_stands_where_the_mapping_does(
    tmp_path: Path, options: dict[str, Any], place: str
) -> None:
    """It was blamed with the place of the file's own value."""
    file = written(tmp_path, "cluster:\n  tls:\n    enabled: true\n    ca_file: ca.pem\n")

    (mistake,) = mistakes_of(file, **{"environment": {}, **options})

    assert mistake.startswith(f"{place}: cluster.tls.enabled: ")


@pytest.mark.parametrize(
    "text",
    [
        "app: {drain: '${env:NONE}'}", "cluster: {name_servers: ['${env:NONE}']}", "app: {budget: 'a${env:NONE}b'}",
        "consumers: {g: {rate: '${env:NONE}/s'}}",
    ],
)  # fmt: skip
def test_a_variable_that_is_not_set_is_one_mistake(tmp_path: Path, text: str) -> None:
    (mistake,) = mistakes_of(written(tmp_path, text), environment={})

    assert "the environment variable NONE is not set" in mistake


def test_a_text_with_a_nul_is_refused(tmp_path: Path) -> None:
    (mistake,) = mistakes_of(written(tmp_path, 'progress:\n  folder: "a\\0b"'), environment={})

    assert "app.yaml:2:11: the text 'a\\x00b' contains a NUL" in mistake


SECRET = "CANARY-s3cr3t,value=1234567890"
PLACES = [
    "app: {drain: '%s'}", "app: {budget: '%s'}", "app: {instance: '/%s'}", "app: {protect: '%s'}",
    "cluster: {name_servers: '%s'}", "cluster: {name_servers: ['%s', 'a:1']}", "cluster: {allow: '%s'}",
    "cluster: {embedded_limits: {message: '%s'}}", "cluster: {address_map: {'a:1': '%s'}}",
    "cluster: {namespace: '/%s'}",
    "consumers: {g: {concurrency: '%s'}}", "consumers: {g: {rate: '%s'}}", "consumers: {g: {start: '%s'}}",
    "consumers: {g: {undecodable: '%s'}}", "consumers: {g: {progress: '%s'}}", "consumers: {g: {trace_topic: '%s/'}}",
    "logging: {level: '%s'}", "logging: {levels: {a: '%s'}}", "workers: {max_memory: 'x%sx'}", "app: '%s'",
]  # fmt: skip


@pytest.mark.parametrize("text", PLACES)
@pytest.mark.parametrize("value", [SECRET, SECRET * 9, SECRET.upper(), "2026-11-21T09:30:00.CANARY", "CANARY"])
def test_an_error_about_a_variable_names_it_and_not_its_value(tmp_path: Path, text: str, value: str) -> None:
    file = written(tmp_path, text % "${env:DATABASE}")

    for mistake in mistakes_of(file, environment={"DATABASE": value}):
        assert "$DATABASE" in mistake
        for at in range(len(value) - 5):
            assert value[at : at + 6].lower() not in mistake.lower()


@pytest.mark.parametrize("name", ["APP__DRAIN", "CLUSTER__NAME_SERVERS", "CONSUMERS__G__START", "CLUSTER"])
def test_so_does_an_error_about_a_variable_of_ours(tmp_path: Path, name: str) -> None:
    for mistake in mistakes_of(written(tmp_path, "{}"), environment={f"FRAMEWORK_APP__{name}": SECRET}):
        assert f"the value of $FRAMEWORK_APP__{name} does not fit" in mistake
        assert "CANARY" not in mistake


def test_a_short_value_is_not_said_either(tmp_path: Path) -> None:
    (mistake,) = mistakes_of(written(tmp_path, "app: {drain: '${env:PIN}'}"), environment={"PIN": "4711"})

    assert "4711" not in mistake


def test_what_is_found_wrong_later_is_said_without_values() -> None:
    hidden = Hidden()
    hidden.came_from(("app", "name"), "SHORT", "ab")
    hidden.came_from(("cluster", "tls", "ca_file"), "WHERE", "/secret/place")
    wrong = ConfigurationError("cannot read '/secret/place/ca.pem': 'ab' is about", place="f.yaml:3")

    shown = hidden.masked(ConfigurationMistakes([wrong, ConfigurationError("another")]))

    assert "f.yaml:3: cannot read '${env:WHERE}/ca.pem': ${env:SHORT} is about\nanother" == str(shown)


def test_an_option_names_a_key_that_has_dots(tmp_path: Path) -> None:
    """They were keys in keys, and so no value: `expected a text, found keys and values`."""
    file = written(tmp_path, "logging: {levels: {a.b: info, a.c: debug}}\nplugins: {settings: {x: {conf: {y.z: '1'}}}}")
    given = ["logging.levels.a.b=error", "cluster.address_map.10.0.0.1:10911=localhost:1", "logging.levels.d=info"]

    settings = load(
        file, environment={}, overrides=[override(each) for each in (*given, "plugins.settings.x.conf.y.z=2")]
    )

    assert {"a.b": "error", "a.c": "debug", "d": "info"} == settings.logging.levels
    assert {"10.0.0.1:10911": "localhost:1"} == settings.cluster.address_map
    assert "--set logging.levels.a.b" == settings.place("logging", "levels", "a.b")
    assert {"conf": {"y.z": "2"}} == settings.plugins.settings["x"]


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
        f"{file}:3:26: cluster.name_servers.0: the environment variable GONE is not set; set it before the start",
        f"{overlay}:2:1: not YAML",
        f"{tmp_path / 'missing.yaml'}: there is no such file; correct the name",
        "$FRAMEWORK_APP__APP__DRAIN: app.drain: ",
        "--set consumers.billing.concurency: unknown key 'concurency' in consumers.billing; did you mean",
    ):
        assert part in shown


@pytest.mark.parametrize("wrong", ["cluster: hello", "cluster: [a]", "cluster: {tls: plain}"])
def test_a_text_in_place_of_a_section_is_said_also_where_a_stronger_source_lays_keys_over_it(
    tmp_path: Path, wrong: str
) -> None:
    """`dev` lays some keys over each settings file: what they cover would be wrong in production only."""
    file = written(tmp_path, wrong)
    overlay = written(tmp_path, "cluster: {tls: {enabled: false}}", "overlay.yaml")

    for more in ({"overlays": [overlay]}, {"overrides": [override("cluster.tls.enabled=false")]}):
        (mistake,) = mistakes_of(file, environment={}, **more)
        assert mistake.startswith(f"{file}:1:")
        assert "expected keys and values, found" in mistake


def test_a_short_form_may_be_laid_over_by_the_long_one(tmp_path: Path) -> None:
    file = written(tmp_path, "consumers: {billing: {allocation: averaging}}")
    override_it = [override("consumers.billing.allocation={sticky: {}}")]

    assert "sticky" in str(load(file, environment={}, overrides=override_it).consumer("billing").allocation)


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
    assert "cluster.credentials.secret_key is in the file" in warning
    assert "hush" not in warning
    assert () == load(reference, environment={"KEY": "hush"}).warnings


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "app.yaml"
    path.write_bytes(b"app: {name: \xff}")

    (mistake,) = mistakes_of(path, environment={})

    assert f"{path}: byte 12 is not UTF-8; save it as UTF-8" == mistake


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


def test_a_section_that_an_overlay_empties_stays_empty_for_what_comes_after(tmp_path: Path) -> None:
    file = written(tmp_path, "cluster: {tls: {enabled: false, ca_file: ca.pem}}")
    overlay = written(tmp_path, "cluster: {tls: }", "overlay.yaml")

    settings = load(file, overlays=[overlay], environment={}, overrides=[override("cluster.tls.enabled=true")])

    assert (True, "") == (settings.cluster.tls.enabled, settings.cluster.tls.ca_file)
    assert None is settings.place("cluster", "tls", "ca_file")


def test_a_section_that_a_variable_misspells_is_told_with_the_variable(tmp_path: Path) -> None:
    (mistake,) = mistakes_of(written(tmp_path, "{}"), environment={"FRAMEWORK_APP__CONSUMRS__X__Y": "1"})

    assert mistake.startswith("$FRAMEWORK_APP__CONSUMRS__X__Y: unknown key 'consumrs' in the settings; did you mean")
