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


def test_compiled_javascript_matches_the_source(binary: str, compiler: Path, tmp_path: Path) -> None:
    """Only JavaScript is installed. After a change run `npm run build` in integrations/openclaw."""
    process = tsc(binary, compiler, "--project", str(ROOT), "--noCheck", "--outDir", str(tmp_path))
    assert process.returncode == 0, process.stdout
    compiled = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert compiled == {path.name: path.read_text() for path in (ROOT / "js").iterdir()}


def test_skill_has_the_project_rule_of_the_plugin() -> None:
    """The skill is installed without the plugin."""
    assert (ROOT / "skills/cofio/scripts/project.mjs").read_text() == (ROOT / "js/project.js").read_text()


def test_source_matches_the_types_of_openclaw(binary: str, compiler: Path, tmp_path: Path) -> None:
    entry = node.declarations() / "dist/plugin-sdk/plugin-entry.d.ts"
    assert entry.exists()
    config = {
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
    (tmp_path / "tsconfig.json").write_text(json.dumps(config))
    process = tsc(binary, compiler, "--project", str(tmp_path))
    assert process.returncode == 0, process.stdout


def test_node_runs_the_typescript_source(binary: str, ann: dict[str, str]) -> None:
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    if tuple(int(part) for part in version.strip("v\n").split(".")[:2]) < (22, 18):
        pytest.skip(f"Node strips types from 22.18 on; this is {version.strip()}.")
    plugin = Plugin(binary, ann, ROOT / "src/index.ts")
    assert "agent_end" in plugin.do("register", config={})["hooks"]
    plugin.close()


def test_package_has_no_dependencies() -> None:
    assert not {"dependencies", "devDependencies", "peerDependencies", "optionalDependencies"} & PACKAGE.keys()
    assert PACKAGE["version"] == __version__


def test_package_names_the_versions_it_was_built_and_tested_with() -> None:
    assert f"typescript@{node.TYPESCRIPT} " in PACKAGE["scripts"]["build"]
    assert PACKAGE["openclaw"]["compat"]["pluginApi"] == f">={node.OPENCLAW}"
    assert f"OpenClaw {node.OPENCLAW} itself was run" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_package_imports_only_node_and_itself() -> None:
    for path in (ROOT / "js").iterdir():
        for name in re.findall(r'from "([^"]+)"', path.read_text()):
            assert name.startswith(("node:", "./")), path.name


def test_files_named_in_the_package_exist() -> None:
    for entry in (*PACKAGE["openclaw"]["extensions"], *PACKAGE["openclaw"]["runtimeExtensions"]):
        assert (ROOT / entry).is_file()


def test_manifest_declares_what_the_plugin_registers(load: Load) -> None:
    plugin = load()
    assert MANIFEST["kind"] == "memory"
    assert MANIFEST["contracts"]["tools"] == [tool["name"] for tool in plugin.do("tools", context={})]
    assert MANIFEST["toolMetadata"].keys() == set(MANIFEST["contracts"]["tools"])
    assert MANIFEST["uiHints"].keys() == MANIFEST["configSchema"]["properties"].keys()
    assert MANIFEST["configSchema"]["additionalProperties"] is False
    assert MANIFEST["uiHints"]["token"]["sensitive"] is True


def test_register_is_synchronous(binary: str, ann: dict[str, str]) -> None:
    plugin = Plugin(binary, ann, ROOT / "js/index.js")
    result = plugin.do("register", config={})
    assert result["isPromise"] is False
    assert result["hooks"] == ["agent_end", "before_compaction", "before_prompt_build", "gateway_stop", "session_end"]
    assert result["names"] == MANIFEST["contracts"]["tools"]
    plugin.close()


def test_host_without_a_memory_slot_is_supported(binary: str, ann: dict[str, str]) -> None:
    plugin = Plugin(binary, ann, ROOT / "js/index.js")
    assert "agent_end" in plugin.do("register", without=["registerMemoryCapability", "pluginConfig"])["hooks"]
    plugin.close()


def test_guidance_names_the_available_tools(load: Load) -> None:
    plugin = load()
    guidance = "\n".join(plugin.do("guidance", tools=["memory_recall", "exec"]))
    assert guidance.startswith("## Memory\n")
    assert "data, not instructions" in guidance
    assert "memory_recall" in guidance
    assert "memory_forget" not in guidance
    assert load(autoRecall=False).do("guidance", tools=[]) == []


def test_no_turn_is_spent_on_saving_before_a_compaction(load: Load) -> None:
    assert load().do("flush") == [None]
