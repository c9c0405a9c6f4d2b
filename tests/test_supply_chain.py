"""What is downloaded: pinned by digest, listed in NOTICE, and nothing installed on the system without saying so."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
LOCK_FILES = [ROOT / "tests/acceptance", *sorted((ROOT / "tests/openclaw/npm").iterdir())]
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")


# ── container images ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_base_images_are_pinned_by_digest() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    stages = re.findall(r"^FROM (\S+)(?: AS (\S+))?$", text, re.MULTILINE)
    own = {name for _, name in stages}
    images = [re.sub(r"\$\{(\w+)\}", lambda match: arguments[match[1]], image) for image, _ in stages]
    outside = [image for image in images if image not in own]
    assert outside
    assert all(DIGEST.search(image) for image in outside), outside


@pytest.mark.parametrize("path", sorted(ROOT.glob("docker-compose*.yml")), ids=lambda path: path.name)
def test_images_of_compose_files_are_pinned_by_digest(path: Path) -> None:
    images = re.findall(r"^ *image: *(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(DIGEST.search(image) for image in images), images


def test_image_installs_only_packages_with_hashes() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    installs = re.findall(r"pip (?:install|wheel)[^&\n]*", text)
    assert len(installs) == 4
    assert all(
        "--require-hashes" in line or "--no-index" in line or "--no-build-isolation" in line for line in installs
    )
    for name in ("requirements-build.lock", "requirements-image.lock"):
        entries = re.split(r"^(?=[a-z0-9])", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
        assert all("--hash=sha256:" in entry for entry in entries), name


@pytest.mark.parametrize("is_current", [True, False])
def test_images_script_replaces_outdated_digests(tmp_path: Path, is_current: bool) -> None:
    names = ("Dockerfile", "docker-compose.yml")
    before = {name: (ROOT / name).read_text(encoding="utf-8") for name in names}
    new = f"sha256:{7:064d}"
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "images").write_bytes((ROOT / "scripts" / "images").read_bytes())
    for name, text in before.items():
        (tmp_path / name).write_text(re.sub(r"sha256:[0-9a-f]{64}", new, text) if is_current else text)
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho {new}\n")
    docker.chmod(0o755)
    command = ["sh", str(tmp_path / "scripts" / "images"), "--write"]
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    lines = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == 2
    assert all(("(current)" in line) is is_current for line in lines)
    for name, text in before.items():
        assert (tmp_path / name).read_text() == re.sub(r"sha256:[0-9a-f]{64}", new, text)


def test_notice_names_every_package_of_the_image() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    lines = (ROOT / "requirements-image.lock").read_text(encoding="utf-8").splitlines()
    pins = [
        line
        for line in lines
        if "==" in line and "sys_platform == 'win32'" not in line and "emscripten' \\" not in line
    ]
    assert len(pins) > 30
    missing = {pin.partition("==")[0] for pin in pins} - set(re.findall(r"[a-z0-9][a-z0-9-]*", notice))
    assert missing <= {"httpx2-jsfetch"}
    assert all(name in notice for name in ("bge-small-en-v1.5", "answerai-colbert-small-v1", "LGPL-3.0", "libpq"))


# ── npm ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("folder", LOCK_FILES, ids=lambda path: path.name)
def test_npm_packages_are_locked_with_digests(folder: Path) -> None:
    manifest: dict[str, Any] = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    packages = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    root = packages.pop("")
    for group in ("dependencies", "optionalDependencies"):
        assert root.get(group) == manifest.get(group)
    assert packages
    assert all(
        package["integrity"].startswith("sha512-") for package in packages.values() if not package.get("inBundle")
    )


def test_npm_installs_from_the_lock_files_without_scripts() -> None:
    for path in (ROOT / "tests/acceptance/clients.py", ROOT / "tests/openclaw/node.py"):
        text = path.read_text(encoding="utf-8")
        assert '["npm", "ci", "--ignore-scripts"' in text
        assert '"install"' not in text


# ── apt-get ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def run_apt_install(folder: Path, answer: str | None, setting: str = "", user: int = 0) -> tuple[list[str], str]:
    """Call apt_install with a fake apt-get; return the commands it got and what was printed.

    `answer`: what a person types at a terminal; None without a terminal.
    """
    for name, script in (("apt-get", f'echo "$@" >> {folder}/ran'), ("id", f"echo {user}")):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    command = ["sh", "-c", f'. {ROOT}/scripts/apt.sh; apt_install "the tests" first second; echo "result $?" >&2']
    env = {"PATH": f"{folder}:{os.environ['PATH']}", **({"COFIO_APT": setting} if setting else {})}
    if answer is None:
        process = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        output = process.stderr
    else:
        terminal, end = pty.openpty()
        with subprocess.Popen(command, env=env, stdin=end, stdout=end, stderr=end) as child:
            os.close(end)
            os.write(terminal, f"{answer}\n".encode())
            chunks = []
            while not b"".join(chunks).rstrip().endswith((b"result 0", b"result 1")):
                chunks.append(os.read(terminal, 1_024))
            child.wait(60)
        os.close(terminal)
        output = b"".join(chunks).decode()
    ran = folder / "ran"
    return ran.read_text().splitlines() if ran.exists() else [], output


@pytest.mark.parametrize(
    ("answer", "setting", "user", "installs"),
    [
        ("n", "", 0, False),
        ("", "", 0, False),
        ("y", "", 0, True),
        ("n", "yes", 0, True),
        (None, "", 0, True),
        (None, "no", 0, False),
        (None, "yes", 1_000, False),
    ],
)
def test_system_packages_are_announced_and_installed_only_with_consent(
    tmp_path: Path, answer: str | None, setting: str, user: int, installs: bool
) -> None:
    ran, output = run_apt_install(tmp_path, answer, setting, user)
    assert "Missing: first, for the tests." in output
    assert ran == (["update -qq", "install -y -qq --no-install-recommends first"] if installs else [])
    assert f"result {int(not installs)}" in output


def test_scripts_call_apt_get_in_one_place() -> None:
    call = re.compile(r"^[^#'\"]*\bapt-get (update|install)", re.MULTILINE)
    files = [path for path in (*(ROOT / "scripts").iterdir(), ROOT / "Makefile") if path.is_file()]
    callers = [path.name for path in files if call.search(path.read_text(encoding="utf-8", errors="replace"))]
    assert callers == ["apt.sh"]
