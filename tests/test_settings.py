"""Tests of loading, validating and writing settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from cofio.errors import Misconfigured
from cofio.settings import Settings, settable, write


def test_defaults_work_without_configuration() -> None:
    settings = Settings.load({}, {"HOME": "/nobody"})
    assert (settings.host, settings.port, settings.embedder) == ("127.0.0.1", 8900, "local")
    assert settings.store_path == settings.home / "cofio.db"
    assert settings.service_url == "http://127.0.0.1:8900"


def test_flag_overrides_variable_which_overrides_file(tmp_path: Path) -> None:
    env = {"COFIO_HOME": str(tmp_path)}
    assert Settings.load({}, env).origins["port"] == "default"
    (tmp_path / "config.toml").write_text("port = 1\nhost = 'localhost'\n")
    assert Settings.load({}, env).port == 1
    env["COFIO_PORT"] = "2"
    loaded = Settings.load({}, env)
    assert (loaded.port, loaded.origins["port"], loaded.host) == (2, "COFIO_PORT", "localhost")
    loaded = Settings.load({"port": 3, "host": None}, env)
    assert (loaded.port, loaded.origins["port"], loaded.origins["host"]) == (3, "flag", str(tmp_path / "config.toml"))


def test_legacy_variable_names_are_accepted(tmp_path: Path) -> None:
    loaded = Settings.load({"home": tmp_path}, {"FAISS_URL": "http://x:1/", "FAISS_API_KEY": "k"})
    assert (loaded.service_url, loaded.api_key) == ("http://x:1", "k")
    both = Settings.load({"home": tmp_path}, {"FAISS_API_KEY": "old", "COFIO_API_KEY": "new"})
    assert both.api_key == "new"


@pytest.mark.parametrize(
    ("store", "path"),
    [
        ("sqlite:///data/x.db", "/data/x.db"),
        ("sqlite:////data/x.db", "/data/x.db"),
        ("/data/x.db", "/data/x.db"),
    ],
)
def test_sqlite_url_forms_name_the_same_path(tmp_path: Path, store: str, path: str) -> None:
    assert Settings.load({"home": tmp_path, "store": store}, {}).store_path == Path(path)


def test_relative_store_path_is_relative_to_working_directory(tmp_path: Path) -> None:
    assert Settings.load({"home": tmp_path, "store": "x.db"}, {}).store_path == Path.cwd() / "x.db"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"COFIO_PORT": "many"}, "whole number"),
        ({"COFIO_PORT": "70000"}, "65535"),
        ({"COFIO_DEDUP_THRESHOLD": "2"}, "0 to 1"),
        ({"COFIO_MODEL_DOWNLOAD": "perhaps"}, "true or false"),
        ({"CONSOLIDATION_SCHEDULE": "nightly"}, "consolidation_schedule: .*such as"),
        ({"COFIO_PRUNE_SCHEDULE": "0 25 * * *"}, "prune_schedule: .*such as"),
        ({"BACKUP_SCHEDULE": "0 3 30 2 *"}, "backup_schedule: .*such as"),
        ({"PRUNE_DETAIL_DAYS": "0"}, "prune_detail_days is 0. Give at least 1"),
        ({"PRUNE_DECISION_DAYS": "-1"}, "at least 1"),
        ({"PRUNE_DAYS": "soon"}, "whole number"),
        ({"BACKUP_DAYS": "0"}, "at least 1"),
        ({"COFIO_RETRIEVAL_DAYS": "0"}, "at least 1"),
        ({"CONSOLIDATION_SIMILARITY": "0.4"}, "0.5 to 1"),
        ({"CONSOLIDATION_SIMILARITY": "nan"}, "0.5 to 1"),
        ({"CONSOLIDATION_MIN_CLUSTER": "1"}, "at least 2"),
    ],
)
def test_invalid_variable_value_raises_error_with_hint(tmp_path: Path, env: dict[str, str], message: str) -> None:
    with pytest.raises(Misconfigured, match=message):
        Settings.load({"home": tmp_path}, env)


@pytest.mark.parametrize(
    ("content", "message"),
    [("prot = 1", "prot"), ("port = ", "cannot be read"), ("port = 'x'", "whole number"), ("host = 5", "text")],
)
def test_invalid_config_file_raises_error_that_names_the_problem(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.toml").write_text(content)
    with pytest.raises(Misconfigured, match=message):
        Settings.load({"home": tmp_path}, {})


def test_maintenance_is_off_until_enabled(tmp_path: Path) -> None:
    default = Settings.load({"home": tmp_path}, {})
    assert default.schedules == {}
    assert (default.prune_detail_days, default.prune_decision_days, default.prune_days) == (60, 120, 90)
    enabled = Settings.load({"home": tmp_path}, {"MAINTENANCE_ENABLED": "true"})
    assert enabled.schedules == {"consolidate": "0 3 * * *", "prune": "0 4 * * 0"}
    customized = Settings.load(
        {"home": tmp_path}, {"COFIO_MAINTENANCE_ENABLED": "yes", "PRUNE_SCHEDULE": "off", "PRUNE_DECISION_DAYS": "7"}
    )
    assert customized.schedules == {"consolidate": "0 3 * * *"}
    assert customized.prune_decision_days == 7
    (tmp_path / "config.toml").write_text('maintenance_enabled = true\nconsolidation_schedule = ""\n')
    assert Settings.load({"home": tmp_path}, {}).schedules == {"prune": "0 4 * * 0"}


def test_backup_schedule_is_independent_of_maintenance_switch(tmp_path: Path) -> None:
    assert Settings.load({"home": tmp_path}, {"BACKUP_SCHEDULE": "0 2 * * *"}).schedules == {"backup": "0 2 * * *"}


def test_write_changes_one_setting_and_keeps_the_rest_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('# mine\nport = 1 # keep\nhost = "localhost"\n')
    write(tmp_path, "port", "8901")
    write(tmp_path, "api_key", 'a "quoted" \\ key')
    write(tmp_path, "model_download", "no")
    loaded = Settings.load({"home": tmp_path}, {})
    assert (loaded.port, loaded.api_key, loaded.model_download, loaded.host) == (
        8901,
        'a "quoted" \\ key',
        False,
        "localhost",
    )
    assert path.read_text().startswith("# mine\n")
    with pytest.raises(Misconfigured, match="no setting"):
        write(tmp_path, "prot", "1")
    with pytest.raises(Misconfigured, match="whole number"):
        write(tmp_path, "port", "x")


def test_new_config_file_is_readable_by_owner_only(tmp_path: Path) -> None:
    path = write(tmp_path / "new", "api_key", "secret")
    assert path.stat().st_mode & 0o077 == 0


def test_secrets_are_masked_in_display(tmp_path: Path) -> None:
    loaded = Settings.load({"home": tmp_path, "api_key": "secret"}, {})
    assert "secret" not in loaded.shown("api_key")
    assert loaded.shown("embedder_key") == ""
    assert loaded.shown("port") == "8900"


#: Variables shared with other programs; they need no COFIO_ name.
SHARED_VARIABLES = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OLLAMA_URL"}


def test_every_setting_has_help_text_and_a_variable_name() -> None:
    for setting in settable():
        assert setting.metadata["says"].endswith(".")
        names = setting.metadata["variables"]
        assert any(name.startswith("COFIO_") for name in names) or names[0] in SHARED_VARIABLES


def test_failed_write_leaves_the_file_unchanged(tmp_path: Path) -> None:
    write(tmp_path, "api_key", "good")
    write(tmp_path, "api_key", "with\nnewline \x7f and \t tab")
    assert Settings.load({"home": tmp_path}, {}).api_key == "with\nnewline \x7f and \t tab"
    (tmp_path / "config.toml").write_text("port = [\n")
    with pytest.raises(Misconfigured, match="cannot be read"):
        write(tmp_path, "host", "localhost")
    assert (tmp_path / "config.toml").read_text() == "port = [\n"
    with pytest.raises(Misconfigured, match="cannot be written"):
        write(tmp_path / "config.toml", "host", "localhost")


@pytest.mark.parametrize("env", [{"COFIO_MAX_BODY": "-1"}, {"COFIO_LOG_LEVEL": "loud"}])
def test_unusable_setting_is_rejected(tmp_path: Path, env: dict[str, str]) -> None:
    with pytest.raises(Misconfigured):
        Settings.load({"home": tmp_path}, env)


def test_in_memory_store_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="is lost"):
        assert Settings.load({"home": tmp_path, "store": "sqlite:///:memory:"}, {}).store_path


# ── extraction model ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_extraction_provider_by_default(tmp_path: Path) -> None:
    loaded = Settings.load({"home": tmp_path}, {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"})
    assert (loaded.extract_provider, loaded.extract_model, loaded.extract_url, loaded.extract_key) == ("", "", "", "")
    assert (loaded.extract_timeout, loaded.inbox_limit, loaded.inbox_days) == (60.0, 10_000, 30)


@pytest.mark.parametrize("prefix", ["", "COFIO_"])
def test_extraction_variables_work_with_and_without_prefix(tmp_path: Path, prefix: str) -> None:
    values = {"PROVIDER": " Ollama ", "MODEL": "llama3:8b", "URL": "http://x:1", "TIMEOUT": "5"}
    loaded = Settings.load({"home": tmp_path}, {f"{prefix}EXTRACT_{name}": value for name, value in values.items()})
    assert (loaded.extract_provider, loaded.extract_model) == ("Ollama", "llama3:8b")
    assert (loaded.extract_url, loaded.extract_timeout) == ("http://x:1", 5.0)


def test_extraction_provider_can_be_set_in_the_file(tmp_path: Path) -> None:
    write(tmp_path, "extract_provider", "anthropic")
    write(tmp_path, "anthropic_key", "sk-2")
    loaded = Settings.load({"home": tmp_path}, {})
    assert (loaded.extract_provider, loaded.extract_key) == ("anthropic", "sk-2")


@pytest.mark.parametrize(
    ("provider", "key", "origin"),
    [
        ("anthropic", "sk-2", "ANTHROPIC_API_KEY"),
        ("OpenAI", "sk-1", "OPENAI_API_KEY"),
        ("ollama", "", "default"),
        ("martian", "", "default"),
    ],
)
def test_extract_key_comes_from_the_selected_provider(tmp_path: Path, provider: str, key: str, origin: str) -> None:
    env = {"EXTRACT_PROVIDER": provider, "OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"}
    loaded = Settings.load({"home": tmp_path}, env)
    assert (loaded.extract_key, loaded.origins["extract_key"]) == (key, origin)
    loaded = Settings.load({"home": tmp_path}, {**env, "COFIO_EXTRACT_KEY": "sk-3"})
    assert (loaded.extract_key, loaded.origins["extract_key"]) == ("sk-3", "COFIO_EXTRACT_KEY")


@pytest.mark.parametrize(
    ("url", "key", "origin"),
    [
        ("https://api.openai.com/v1", "sk-1", "OPENAI_API_KEY"),
        ("http://api.openai.com/v1", "", "default"),
        ("https://api.openai.com.example.org/v1", "", "default"),
        ("http://127.0.0.1:11434/v1", "", "default"),
    ],
)
def test_openai_key_is_sent_only_to_openai_upstream(tmp_path: Path, url: str, key: str, origin: str) -> None:
    env = {"OPENAI_API_KEY": "sk-1", "COFIO_CHAT_UPSTREAM_URL": url}
    loaded = Settings.load({"home": tmp_path}, env)
    assert (loaded.chat_upstream_url, loaded.chat_upstream_timeout) == (url, 600.0)
    assert (loaded.chat_upstream_key, loaded.origins["chat_upstream_key"]) == (key, origin)
    assert Settings.load({"home": tmp_path}, {**env, "CHAT_UPSTREAM_KEY": "sk-2"}).chat_upstream_key == "sk-2"


def test_provider_keys_are_masked(tmp_path: Path) -> None:
    env = {"EXTRACT_PROVIDER": "openai", "OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"}
    loaded = Settings.load({"home": tmp_path}, env)
    assert {loaded.shown(name) for name in ("extract_key", "openai_key", "anthropic_key")} == {"•" * 8}


def test_unknown_provider_does_not_break_loading(tmp_path: Path) -> None:
    env = {"EXTRACT_PROVIDER": "martian", "EXTRACT_URL": "http://[::1", "EXTRACT_MODEL": "\x00"}
    assert Settings.load({"home": tmp_path}, env).extract_provider == "martian"
