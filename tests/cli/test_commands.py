"""Basic commands with text and JSON output."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from cofio.cli import cli
from tests.cli.conftest import InProcessCli


def _parse_error(text: str) -> dict[str, str]:
    payload: dict[str, str] = json.loads(text)["error"]
    return payload


# ── add ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_add_prints_ids_and_memories_are_found(cofio: InProcessCli) -> None:
    assert cofio.lines("add", "We deploy with Fly.io", "Ada likes tea") == [
        "1\tadded\tWe deploy with Fly.io",
        "2\tadded\tAda likes tea",
    ]
    results = cofio.lines("search", "where", "do", "we", "deploy?", "-k", "1")
    assert [line.split("\t")[0] for line in results] == ["1"]
    assert results[0].endswith("+00:00\tsaid by you")
    assert cofio.lines("list")[0].endswith("\tsaid by you")
    assert "provenance\tsaid by you" in cofio.lines("show", "1")


def test_add_of_known_fact_is_reported(cofio: InProcessCli) -> None:
    cofio.lines("add", "We deploy with Fly.io")
    result = cofio("add", "We deploy with Fly.io")
    assert result.stdout == "1\tknown\tWe deploy with Fly.io\n"
    assert "1 was known already" in result.stderr
    assert cofio.json("add", "We deploy with Fly.io", "--no-dedup")["added"] == 1


def test_add_json_reports_the_action_of_each_fact(cofio: InProcessCli) -> None:
    output = cofio.json("add", "Ada likes tea", "Ada likes tea", "--why", "test")
    assert (output["added"], output["duplicates"], output["changesets"]) == (1, 1, [1])
    assert [result["action"] for result in output["results"]] == ["add", "noop"]
    assert output["results"][0]["text"] == "Ada likes tea"


def test_add_stores_every_option(cofio: InProcessCli) -> None:
    options = {
        "--source": "acme/web",
        "--project": "/srv/web",
        "--kind": "preference",
        "--session": "s1",
        "--agent": "a1",
        "--visibility": "team",
        "--speaker": "Ada",
        "--context": "What do you drink?",
        "--confidence": "0.5",
    }
    values = [part for pair in options.items() for part in pair]
    cofio.lines("add", "Tea, please", *values, "--tag", "drinks", "--tag", "habits", "--entity", "Ada")
    memory = cofio.json("show", "1")
    assert {name.lstrip("-"): str(memory[name.lstrip("-")]) for name in options} == {
        name.lstrip("-"): value for name, value in options.items()
    }
    assert (memory["tags"], memory["entities"], memory["category"]) == (["drinks", "habits"], ["Ada"], "decision")


@pytest.mark.parametrize("argument", [["-"], []])
def test_add_reads_one_fact_per_line_from_stdin(cofio: InProcessCli, argument: list[str]) -> None:
    cofio.lines("add", *argument, "--source", "acme", input_text="Ada likes tea\n\n  Bob likes coffee  \n")
    output = cofio.json("list")["memories"]
    assert [(memory["text"], memory["source"]) for memory in output] == [
        ("Bob likes coffee", "acme"),
        ("Ada likes tea", "acme"),
    ]


def test_add_jsonl_adds_facts_in_batches(cofio: InProcessCli, tmp_path: Path) -> None:
    facts: list[dict[str, object]] = [{"text": f"Fact {number}", "tags": [f"t{number}"]} for number in range(300)]
    facts[0] |= {"source": "mine", "timestamp": 1_771_570_000_000}
    path = tmp_path / "facts.jsonl"
    path.write_text("\n".join(json.dumps(fact) for fact in facts) + "\n", encoding="utf-8")
    output = cofio.json("add", "--jsonl", str(path), "--source", "bulk")
    assert (output["added"], len(output["changesets"])) == (300, 2)
    first, last = cofio.json("show", "1"), cofio.json("show", "300")
    assert (first["source"], first["created_at"][:10], last["source"], last["tags"]) == (
        "mine",
        "2026-02-20",
        "bulk",
        ["t299"],
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"text": ', "not JSON"),
        (b'"a text"', "not a JSON object"),
        (b'{"source": "x"}', "text is empty"),
        (b'{"text": "x", "colour": "red"}', "has no field colour"),
        (b'{"text": "x", "kind": "zebra"}', "zebra"),
        (b'{"text": "x", "tags": "one"}', "tags"),
        (b'{"text": "\xff"}', "not UTF-8"),
    ],
)
def test_invalid_jsonl_line_is_named_and_nothing_is_added(
    cofio: InProcessCli, line: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_bytes(b'{"text": "good"}\n\n' + line + b'\n{"text": "good too"}\n')
    result = cofio("add", "--jsonl", str(path))
    assert result.exit_code == 1
    assert "Line 3" in result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert cofio.json("stats")["memories"] == 0
    piped = cofio("add", "--jsonl", "-", input_text=path.read_bytes())
    assert (piped.exit_code, "Line 3" in piped.stderr, cofio.json("stats")["memories"]) == (1, True, 0)


def test_texts_and_jsonl_together_are_a_usage_error(cofio: InProcessCli, tmp_path: Path) -> None:
    (tmp_path / "facts.jsonl").touch()
    assert cofio("add", "x", "--jsonl", str(tmp_path / "facts.jsonl")).exit_code == 2


# ── search, show, list ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def filled(cofio: InProcessCli) -> InProcessCli:
    cofio.lines("add", "We deploy with Fly.io", "--source", "acme/web", "--kind", "technology", "--tag", "infra")
    cofio.lines("add", "We deploy docs with Netlify", "--source", "acme/docs", "--visibility", "team")
    cofio.lines("add", "Bob prefers spaces", "--source", "other", "--kind", "preference", "--project", "./web")
    return cofio


def test_search_json_equals_the_http_response(filled: InProcessCli) -> None:
    output = filled.json("search", "deploy with Fly.io", "--explain")
    assert (output["query"], output["count"]) == ("deploy with Fly.io", len(output["results"]))
    assert output["results"][0]["id"] == 1
    assert {"score", "similarity", "keyword_score", "match_type", "why"} <= output["results"][0].keys()


def test_search_explain_prints_formula_and_words(filled: InProcessCli) -> None:
    formula, words = filled.lines("search", "deploy", "--explain", "-k", "1")[0].split("\t")[-2:]
    assert "cosine" in formula
    assert words == "deploy"


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--source-prefix", "acme"], {1, 2}),
        (["--source", "acme/web"], {1}),
        (["--project", "./web"], {3}),
        (["--project", ""], {1, 2}),
        (["--project", "web"], set()),
        (["--kind", "preference"], {3}),
        (["--category", "decision"], {1, 2, 3}),  # the kind of a typed fact is predicted
        (["--tag", "infra"], {1}),
        (["--visibility", "team"], {2}),
        (["--since", "1h"], {1, 2, 3}),
        (["--until", "1h"], set()),
        (["--since", "2020-01-01", "--until", "2020-01-02T00:00:00Z"], set()),
        (["--not-pinned"], {1, 2, 3}),
        (["--pinned"], set()),
    ],
)
def test_search_and_list_accept_the_same_filters(filled: InProcessCli, options: list[str], ids: set[int]) -> None:
    assert {memory["id"] for memory in filled.json("list", *options)["memories"]} == ids
    assert {result["id"] for result in filled.json("search", "we deploy spaces", *options)["results"]} <= ids


def test_search_without_results_exits_with_zero(cofio: InProcessCli) -> None:
    result = cofio("search", "anything")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No matching memories" in result.stderr
    assert cofio.json("search", "anything") == {"query": "anything", "count": 0, "poor_match": False, "results": []}


def test_search_reports_poor_matches(cofio: InProcessCli) -> None:
    cofio.lines("add", "The auth bug was a missing cookie flag")
    weak = cofio("search", "bananas")
    assert "No memory matches well" in weak.stderr
    assert "weak" in weak.stdout
    assert cofio.json("search", "bananas")["poor_match"] is True
    strong = cofio("search", "the auth bug was a missing cookie flag")
    assert "No memory matches well" not in strong.stderr
    assert "strong" in strong.stdout
    assert cofio.json("search", "missing cookie flag")["results"][0]["strength"] == "strong"


def test_search_threshold_filters_results(filled: InProcessCli) -> None:
    assert filled.json("search", "deploy", "--threshold", "1")["count"] == 0


def test_show_prints_all_fields(filled: InProcessCli) -> None:
    output = dict(line.split("\t", 1) for line in filled.lines("show", "1"))
    assert (output["text"], output["source"], output["tags"]) == ("We deploy with Fly.io", "acme/web", "infra")
    assert filled.json("show", "1")["timestamp"] == output["created_at"]


def test_show_of_unknown_memory_is_an_error_with_hint(cofio: InProcessCli) -> None:
    result = cofio("show", "99")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: There is no memory 99.\n")
    result = cofio("--json", "show", "99")
    assert (result.exit_code, result.stdout) == (1, "")
    assert _parse_error(result.stderr)["code"] == "not_found"
    assert _parse_error(result.stderr)["hint"]


def test_list_is_paginated(filled: InProcessCli) -> None:
    first = filled.json("list", "-n", "2")
    assert ([memory["id"] for memory in first["memories"]], first["next"], first["total"]) == ([3, 2], 2, 3)
    assert [memory["id"] for memory in filled.json("list", "--after", "2")["memories"]] == [1]
    assert "--after 2" in filled("list", "-n", "2").stderr


def test_list_of_empty_store_reports_it(cofio: InProcessCli) -> None:
    result = cofio("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no matching memories" in result.stderr


# ── edit, forget, restore ─────────────────────────────────────────────────────────────────────────────────────────────


def test_edit_changes_fields_by_options(filled: InProcessCli) -> None:
    output = filled.json("edit", "1", "--text", "We deploy with Render", "--pin", "--tag", "cloud", "--why", "moved")
    assert (output["action"], output["memory"]["text"], output["memory"]["pinned"]) == (
        "edit",
        "We deploy with Render",
        True,
    )
    assert output["memory"]["tags"] == ["cloud"]
    assert filled.json("edit", "1", "--unpin", "--tag", "")["memory"]["tags"] == []
    for project in ("/srv/web", ""):
        assert filled.json("edit", "1", "--project", project)["memory"]["project"] == project
    assert filled.json("history", "1")["changes"][1]["why"] == "moved"


def test_edit_without_terminal_requires_options(filled: InProcessCli) -> None:
    result = filled("edit", "1")
    assert result.exit_code == 2
    assert "--text" in result.output


def test_forget_archives_and_restore_reactivates(filled: InProcessCli) -> None:
    assert filled.lines("forget", "1", "2") == [
        "1\tarchived\tWe deploy with Fly.io",
        "2\tarchived\tWe deploy docs with Netlify",
    ]
    assert filled.json("list")["total"] == 1
    assert "archived" in filled.lines("list", "--archived")[-1]
    output = filled.json("restore", "1")
    assert output["results"][0] == {"id": 1, "action": "restore", "changeset": output["results"][0]["changeset"]}
    assert filled.json("list")["total"] == 2


def test_supersede_archives_the_old_memory(filled: InProcessCli) -> None:
    output = filled.json("supersede", "1", "We deploy with Render", "--why", "cheaper")
    assert (output["old_id"], output["previous_text"]) == (1, "We deploy with Fly.io")
    assert output["memory"]["supersedes"] == 1
    assert filled.json("show", "1")["superseded_by"] == output["new_id"]
    assert filled.lines("supersede", "2", "We deploy docs with Pages")[0].endswith("We deploy docs with Pages")


def test_forget_with_an_unknown_id_changes_nothing(filled: InProcessCli) -> None:
    assert filled("forget", "1", "99").exit_code == 1
    assert filled.json("list")["total"] == 3


def test_purge_requires_confirmation(filled: InProcessCli) -> None:
    no = filled("forget", "1", "--purge", input_text="n\n")
    assert (no.exit_code, filled.json("list")["total"]) == (0, 3)
    assert "We deploy with Fly.io" in no.stderr
    nobody = filled("forget", "1", "--purge")
    assert (nobody.exit_code, "--yes" in nobody.stderr, filled.json("list")["total"]) == (1, True, 3)
    assert filled("forget", "1", "--purge", input_text="y\n").exit_code == 0
    assert filled("show", "1").exit_code == 1
    assert filled.json("forget", "2", "--purge", "--yes")["results"][0]["action"] == "purge"


# ── history, undo ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_undo_reverts_step_by_step_and_can_be_undone(filled: InProcessCli) -> None:
    filled.lines("edit", "3", "--text", "Bob prefers tabs")
    request = filled("undo", input_text="y\n")
    assert request.exit_code == 0
    assert "Bob prefers tabs" in request.stderr
    assert filled.json("show", "3")["text"] == "Bob prefers spaces"
    assert filled.json("undo", "--yes")["undoes"] == 3
    assert filled("show", "3").exit_code == 1
    assert filled.json("undo", "6", "--yes")["undoes"] == 6  # an undo is undone by its id
    assert filled.json("show", "3")["text"] == "Bob prefers spaces"
    output = filled.json("history")["changesets"]
    lineage = [(item["id"], item["undoes"], item["undone_by"]) for item in output[:3]]
    assert lineage == [(7, 6, None), (6, 3, 7), (5, 4, None)]


def test_declined_undo_changes_nothing(filled: InProcessCli) -> None:
    assert filled("undo", input_text="n\n").exit_code == 0
    assert filled.json("undo", input_text="no\n") is None
    assert filled.json("list")["total"] == 3
    filled.lines("undo", "3", "--yes")
    repeated = filled("undo", "3", "--yes")
    assert (repeated.exit_code, "undone already" in repeated.stderr) == (1, True)


def test_undo_without_changes_is_an_error(cofio: InProcessCli) -> None:
    result = cofio("undo", "--json")
    assert (result.exit_code, _parse_error(result.stderr)["code"]) == (1, "conflict")


def test_history_lists_changesets_and_changes_of_a_memory(filled: InProcessCli) -> None:
    filled.lines("edit", "1", "--pin")
    assert [line.split("\t")[0] for line in filled.lines("history", "-n", "2")] == ["4", "3"]
    lines = filled.lines("history", "1")
    assert [line.split("\t")[3] for line in lines] == ["add", "edit"]
    assert lines[1].endswith("(pinned)")
    assert filled.lines("history", "--changeset", "4") == lines[1:]
    assert filled.json("history", "--changeset", "4")["changes"][0]["memory_id"] == 1
    assert filled("history", "1", "--changeset", "4").exit_code == 2


# ── maintenance ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_stats_count_memories(filled: InProcessCli) -> None:
    assert filled.json("stats")["memories"] == 3
    lines = dict(line.split("\t", 1) for line in filled.lines("stats"))
    assert lines["memories"] == "3"
    assert lines["by_source"] == "acme/docs 1, acme/web 1, other 1"


def test_dedup_is_a_dry_run_without_apply(cofio: InProcessCli) -> None:
    cofio.lines("add", "Ada likes tea!", "ada likes tea", "--no-dedup")
    dry = cofio("dedup")
    assert dry.stdout.startswith("2\tada likes tea\t1\tAda likes tea!\t")
    assert "--apply" in dry.stderr
    assert cofio.json("list")["total"] == 2
    output = cofio.json("dedup", "--apply")
    assert (output["dry_run"], output["count"], output["decisions"][0]["into"]) == (False, 1, 1)
    assert cofio.json("list")["total"] == 1
    cofio.lines("undo", str(output["changeset"]), "--yes")
    assert cofio.json("list")["total"] == 2
    assert "no duplicates" in cofio("dedup", "--source-prefix", "nowhere").stderr


def test_reembed_embeds_all_memories(filled: InProcessCli) -> None:
    filled.lines("forget", "3")
    assert filled.json("reembed")["embedded"] == 3
    assert filled.json("reembed", "--missing")["embedded"] == 0
    assert filled.json("search", "Fly.io", "-k", "1")["results"][0]["id"] == 1
    assert filled("reembed", "--url", "http://127.0.0.1:1").exit_code == 1


# ── config ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_flag_overrides_variable_file_and_default(cofio: InProcessCli, tmp_path: Path) -> None:
    assert cofio.json("config")["port"] == {"value": 8900, "origin": "default"}
    cofio.lines("config", "set", "store", "from-file.db")
    file = str(cofio.home / "config.toml")
    assert cofio.json("config", "show")["store"] == {"value": "from-file.db", "origin": file}
    variable = {"COFIO_STORE": "from-variable.db"}
    assert cofio.json("config", env=variable)["store"] == {"value": "from-variable.db", "origin": "COFIO_STORE"}
    for flagged in (["--store", "from-flag.db", "config"], ["config", "show", "--store", "from-flag.db"]):
        assert cofio.json(*flagged, env=variable)["store"] == {"value": "from-flag.db", "origin": "flag"}
    home = tmp_path / "elsewhere"
    assert cofio.json("--home", str(home), "config")["home"] == {"value": str(home), "origin": "flag"}


def test_config_set_writes_and_warns_when_overridden(cofio: InProcessCli) -> None:
    assert cofio.json("config", "set", "dedup_threshold", "0.8")["value"] == 0.8
    assert cofio.lines("config", "path") == [str(cofio.home / "config.toml")]
    overruled = cofio("config", "set", "host", "::1", env={"COFIO_HOST": "127.0.0.1"})
    assert "COFIO_HOST" in overruled.stderr


@pytest.mark.parametrize(
    "arguments", [["port", "many"], ["port", "99999"], ["dedup_threshold", "2"], ["colour", "red"]]
)
def test_config_set_rejects_invalid_values(cofio: InProcessCli, arguments: list[str]) -> None:
    result = cofio("config", "set", *arguments)
    assert (result.exit_code, "Traceback" in result.output) == (1, False)
    assert not (cofio.home / "config.toml").exists()
    assert cofio("config").exit_code == 0


def test_config_set_reads_keys_from_stdin_and_never_shows_them(cofio: InProcessCli) -> None:
    result = cofio("config", "set", "api_key", input_text="very secret\n")
    assert result.exit_code == 0, result.output
    for arguments in (["config"], ["config", "--json"]):
        output = cofio(*arguments).output
        assert "very secret" not in output
        assert "api_key" in output
    path = cofio.home / "config.toml"
    assert "very secret" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


def test_invalid_config_file_is_reported_with_its_path(cofio: InProcessCli) -> None:
    cofio.home.mkdir()
    (cofio.home / "config.toml").write_text("port = \n")
    result = cofio("list")
    assert (result.exit_code, "config.toml" in result.stderr) == (1, True)


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _get_subcommand(group: click.Command, name: str) -> click.Command:
    assert isinstance(group, click.Group)
    command = group.get_command(click.Context(group), name)
    assert command
    return command


def _list_commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    results = []
    for name in group.commands:
        results.append((*path, name))
        command = _get_subcommand(group, name)
        if isinstance(command, click.Group):
            results += _list_commands(command, (*path, name))
    return results


@pytest.mark.parametrize("path", [(), *_list_commands(cli)], ids=" ".join)
def test_help_of_every_command_has_examples_and_option_texts(cofio: InProcessCli, path: tuple[str, ...]) -> None:
    for flag in ("-h", "--help"):
        result = cofio(*path, flag)
        assert result.exit_code == 0
        assert "Examples:" in result.stdout
        assert " ".join(("cofio", *path)) in result.stdout.partition("Examples:")[2]
    assert "--json" in result.stdout
    command: click.Command = cli
    for name in path:
        command = _get_subcommand(command, name)
    assert command.help
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert [option.name for option in options if not option.help and not option.hidden] == []


def test_every_command_is_in_a_help_section(cofio: InProcessCli) -> None:
    output = cofio("--help").stdout
    for name in cli.commands:
        assert f"\n  {name} " in output


def test_no_arguments_prints_help(cofio: InProcessCli) -> None:
    assert "Usage: cofio" in cofio().output


@pytest.mark.parametrize(
    "arguments",
    [["unheard"], ["search"], ["show", "x"], ["search", "x", "--kind", "zebra"], ["list", "--since", "soon"]],
)
def test_usage_errors_exit_with_two(cofio: InProcessCli, arguments: list[str]) -> None:
    result = cofio(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Usage:" in result.stderr
    result = cofio(*arguments, "--json")
    assert (result.exit_code, result.stdout, _parse_error(result.stderr)["code"]) == (2, "", "usage")


def test_version_is_printed(cofio: InProcessCli) -> None:
    assert cofio("--version").stdout.startswith("cofio 0.")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed(cofio: InProcessCli, shell: str) -> None:
    script = "\n".join(cofio.lines("completion", shell))
    assert "_COFIO_COMPLETE" in script
    assert cofio.json("completion", shell)["script"].strip() == script.strip()


def test_completion_script_completes_commands(cofio: InProcessCli) -> None:
    result = cofio(env={"_COFIO_COMPLETE": "bash_complete", "COMP_WORDS": "cofio se", "COMP_CWORD": "1"})
    assert {line.partition(",")[2] for line in result.stdout.splitlines()} == {"search", "serve", "sessions"}


def test_named_service_is_used(cofio: InProcessCli) -> None:
    by_variable = cofio("list", env={"COFIO_URL": "http://127.0.0.1:1"})
    for done in (by_variable, cofio("--url", "http://127.0.0.1:1", "list")):
        assert (done.exit_code, "http://127.0.0.1:1" in done.stderr) == (1, True)


# ── unusual characters ────────────────────────────────────────────────────────────────────────────────────────────────

CONTROL_TEXT = "[bold red]x[/bold red] \x1b]0;owned\x07 \x1b[31mred\r\u202eabc \x9b2J :smile: tab\there\nnext"


def test_piped_output_has_one_line_per_memory_without_control_characters(cofio: InProcessCli) -> None:
    result = cofio.json("add", CONTROL_TEXT)
    assert result["results"][0]["text"] == CONTROL_TEXT
    for command in (["list"], ["search", "smile", "tab"], ["history", "1"], ["show", "1"], ["forget", "1"]):
        output = cofio(*command).output
        assert not set(output) & set("\x1b\x07\x9b\r\u202e")
    assert r"[bold red]x[/bold red] \x1b]0;owned\x07 \x1b[31mred\r\u202eabc \x9b2J :smile: tab\there\nnext" in output


def test_json_output_preserves_the_text(cofio: InProcessCli) -> None:
    cofio.json("add", CONTROL_TEXT)
    result = cofio("show", "1", "--json")
    assert json.loads(result.stdout)["text"] == CONTROL_TEXT
    assert "\x1b" not in result.stdout


def test_only_the_settings_read_the_environment() -> None:
    package = Path(__file__).parents[2] / "src" / "cofio"
    readers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in ("os.environ", "os.getenv", "environb"))
    }
    assert readers == {"settings.py"}


def test_missing_store_is_an_error(cofio: InProcessCli, tmp_path: Path) -> None:
    missing = tmp_path / "typo" / "cofio.db"
    result = cofio("search", "anything", "--store", str(missing))
    assert result.exit_code == 1
    assert "no store" in result.output
    assert not missing.exists()
    assert cofio("add", "a first fact", "--store", str(missing)).exit_code == 0
    assert missing.stat().st_mode & 0o077 == 0
    assert missing.parent.stat().st_mode & 0o077 == 0


def test_history_describes_changes(filled: InProcessCli) -> None:
    filled("forget", "1")
    assert "1: We deploy with Fly.io" in filled.lines("history")[0]


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TOKEN = "gh" + "p_" + "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gI3kM5"


def test_typed_secret_is_redacted_and_reported(cofio: InProcessCli) -> None:
    result = cofio("add", f"The gateway wants {TOKEN}")
    assert TOKEN not in result.output
    assert "Secrets were removed from memory 1: github-token" in result.output
    assert "Secrets were removed" in cofio("edit", "1", "--text", f"The gateway takes {TOKEN}").output
    assert "Secrets were removed" in cofio("supersede", "1", f"The gateway needs {TOKEN}").output
    assert cofio.json("list")["memories"][0]["text"] == "The gateway needs [redacted:github-token]"


def test_person_may_insist_on_a_secret(cofio: InProcessCli) -> None:
    cofio("add", f"The gateway wants {TOKEN}", "--keep-secret")
    cofio("edit", "1", "--tag", "infra")
    assert cofio.json("show", "1")["text"] == f"The gateway wants {TOKEN}"


def test_undo_of_a_source_previews_archives_and_can_be_undone(cofio: InProcessCli) -> None:
    cofio("add", "We deploy with Evilhost", "--source", "codex/evil")
    cofio("add", "Ada likes tea", "--source", "claude-code/web")
    assert cofio.lines("undo", "--learned-from", "codex/evil", "--dry-run") == ["1\tarchive\tWe deploy with Evilhost"]
    assert len(cofio.lines("list")) == 2
    result = cofio("undo", "--learned-from", "codex", "--yes")
    assert "cofio undo 3" in result.output
    assert [line.split("\t")[1] for line in cofio.lines("list")] == ["Ada likes tea"]
    cofio("undo", "3", "--yes")
    assert len(cofio.lines("list")) == 2
    assert "Nothing was learned" in cofio("undo", "--session", "unknown", "--yes").output
    for wrong in (["1", "--session", "s"], ["--dry-run"], ["--since", "7d"]):
        assert cofio("undo", *wrong).exit_code == 2
