"""The package: its types, its compiled form, its manifest."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cofio import __version__
from tests.openclaw import node
from tests.openclaw.conftest import ROOT, Load, Plugin

MANIFEST: dict[str, Any] = json.loads((ROOT / "openclaw.plugin.json").read_text(encoding="utf-8"))
PACKAGE: dict[str, Any] = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))


def tsc(binary: str, compiler: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [binary, str(compiler / "node_modules/typescript/bin/tsc"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def compiler() -> Path:
    return node.compiler()


def test_what_openclaw_loads_is_what_the_source_says(binary: str, compiler: Path, tmp_path: Path) -> None:
    """It installs nothing but JavaScript. After a change: `npm run build` in integrations/openclaw."""
    done = tsc(binary, compiler, "--project", str(ROOT), "--noCheck", "--outDir", str(tmp_path))
    assert done.returncode == 0, done.stdout
    fresh = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert fresh == {path.name: path.read_text() for path in (ROOT / "js").iterdir()}


def test_the_source_has_the_types_that_openclaw_declares(binary: str, compiler: Path, tmp_path: Path) -> None:
    entry = node.declarations() / "dist/plugin-sdk/plugin-entry.d.ts"
    assert entry.exists()
    told = {
        "extends": str(ROOT / "tsconfig.json"),
        "compilerOptions": {
            "noEmit": True,
            "rootDir": "/",
            "allowImportingTsExtensions": True,
            "rewriteRelativeImportExtensions": False,
            "types": ["node"],
            "typeRoots": [str(compiler / "node_modules/@types")],
            "paths": {"openclaw/plugin-sdk/plugin-entry": [str(entry)]},
        },
        "include": [str(Path(__file__).with_name("fits.mts"))],
    }
    (tmp_path / "tsconfig.json").write_text(json.dumps(told))
    done = tsc(binary, compiler, "--project", str(tmp_path))
    assert done.returncode == 0, done.stdout


def test_node_runs_the_source_as_it_is(binary: str, ann: dict[str, str]) -> None:
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(int(part) for part in version.strip("v\n").split(".")[:2]) < (22, 18):
        pytest.skip(f"Node strips types from 22.18 on; this is {version.strip()}.")
    plugin = Plugin(binary, ann, ROOT / "src/index.ts")
    assert "agent_end" in plugin.do("register", config={})["hooks"]
    plugin.close()


def test_it_depends_on_nothing() -> None:
    assert not {"dependencies", "devDependencies", "peerDependencies", "optionalDependencies"} & PACKAGE.keys()
    assert PACKAGE["version"] == __version__


def test_it_says_what_it_was_built_with_and_tried_with() -> None:
    assert f"typescript@{node.TYPESCRIPT} " in PACKAGE["scripts"]["build"]
    assert PACKAGE["openclaw"]["compat"]["pluginApi"] == f">={node.OPENCLAW}"
    assert f"OpenClaw {node.OPENCLAW} itself was run" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_imports_nothing_but_node_and_itself() -> None:
    for path in (ROOT / "js").iterdir():
        for name in re.findall(r'from "([^"]+)"', path.read_text()):
            assert name.startswith(("node:", "./")), path.name


def test_everything_in_it_that_is_named_is_there() -> None:
    for entry in (*PACKAGE["openclaw"]["extensions"], *PACKAGE["openclaw"]["runtimeExtensions"]):
        assert (ROOT / entry).is_file()


def test_the_manifest_declares_what_the_plugin_registers(load: Load) -> None:
    plugin = load()
    assert MANIFEST["kind"] == "memory"
    assert MANIFEST["contracts"]["tools"] == [each["name"] for each in plugin.do("tools", context={})]
    assert MANIFEST["toolMetadata"].keys() == set(MANIFEST["contracts"]["tools"])
    assert MANIFEST["uiHints"].keys() == MANIFEST["configSchema"]["properties"].keys()
    assert MANIFEST["configSchema"]["additionalProperties"] is False
    assert MANIFEST["uiHints"]["token"]["sensitive"] is True


def test_register_is_done_when_it_returns(binary: str, ann: dict[str, str]) -> None:
    plugin = Plugin(binary, ann, ROOT / "js/index.js")
    told = plugin.do("register", config={})
    assert told["isPromise"] is False
    assert told["hooks"] == ["agent_end", "before_compaction", "before_prompt_build", "gateway_stop", "session_end"]
    assert told["names"] == MANIFEST["contracts"]["tools"]
    plugin.close()


def test_a_host_without_a_memory_slot_will_do(binary: str, ann: dict[str, str]) -> None:
    plugin = Plugin(binary, ann, ROOT / "js/index.js")
    assert "agent_end" in plugin.do("register", without=["registerMemoryCapability", "pluginConfig"])["hooks"]
    plugin.close()


def test_the_agent_is_told_of_the_tools_that_it_has(load: Load) -> None:
    plugin = load()
    told = "\n".join(plugin.do("guidance", tools=["memory_recall", "exec"]))
    assert told.startswith("## Memory\n")
    assert "data, not instructions" in told
    assert "memory_recall" in told
    assert "memory_forget" not in told
    assert load(autoRecall=False).do("guidance", tools=[]) == []


def test_no_turn_is_spent_on_saving_before_a_compaction(load: Load) -> None:
    assert load().do("flush") == [None]
