"""The commands, in text and in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from cofio.cli import cli
from tests.cli.conftest import Cofio


def _error(text: str) -> dict[str, str]:
    told: dict[str, str] = json.loads(text)["error"]
    return told


# ── add ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_is_remembered_and_found(cofio: Cofio) -> None:
    assert cofio.lines("add", "We deploy with Fly.io", "Ada likes tea") == [
        "1\tadded\tWe deploy with Fly.io",
        "2\tadded\tAda likes tea",
    ]
    found = cofio.lines("search", "where", "do", "we", "deploy?", "-k", "1")
    assert [line.split("\t")[0] for line in found] == ["1"]
    assert found[0].endswith("+00:00")


def test_a_known_fact_is_said_to_be_known(cofio: Cofio) -> None:
    cofio.lines("add", "We deploy with Fly.io")
    done = cofio("add", "We deploy with Fly.io")
    assert done.stdout == "1\tknown\tWe deploy with Fly.io\n"
    assert "1 was known already" in done.stderr
    assert cofio.json("add", "We deploy with Fly.io", "--no-dedup")["added"] == 1


def test_add_tells_in_json_what_became_of_each_fact(cofio: Cofio) -> None:
    told = cofio.json("add", "Ada likes tea", "Ada likes tea", "--why", "test")
    assert (told["added"], told["duplicates"], told["changesets"]) == (1, 1, [1])
    assert [each["action"] for each in told["results"]] == ["add", "noop"]
    assert told["results"][0]["text"] == "Ada likes tea"


def test_every_option_of_add_is_kept(cofio: Cofio) -> None:
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
    given = [part for pair in options.items() for part in pair]
    cofio.lines("add", "Tea, please", *given, "--tag", "drinks", "--tag", "habits", "--entity", "Ada")
    memory = cofio.json("show", "1")
    assert {name.lstrip("-"): str(memory[name.lstrip("-")]) for name in options} == {
        name.lstrip("-"): value for name, value in options.items()
    }
    assert (memory["tags"], memory["entities"], memory["category"]) == (["drinks", "habits"], ["Ada"], "decision")


@pytest.mark.parametrize("argument", [["-"], []])
def test_each_line_of_the_standard_input_is_a_fact(cofio: Cofio, argument: list[str]) -> None:
    cofio.lines("add", *argument, "--source", "acme", says="Ada likes tea\n\n  Bob likes coffee  \n")
    listed = cofio.json("list")["memories"]
    assert [(each["text"], each["source"]) for each in listed] == [
        ("Bob likes coffee", "acme"),
        ("Ada likes tea", "acme"),
    ]


def test_a_file_of_json_lines_is_added_in_batches(cofio: Cofio, tmp_path: Path) -> None:
    facts: list[dict[str, object]] = [{"text": f"Fact {number}", "tags": [f"t{number}"]} for number in range(300)]
    facts[0] |= {"source": "mine", "timestamp": 1_771_570_000_000}
    path = tmp_path / "facts.jsonl"
    path.write_text("\n".join(json.dumps(fact) for fact in facts) + "\n", encoding="utf-8")
    told = cofio.json("add", "--jsonl", str(path), "--source", "bulk")
    assert (told["added"], len(told["changesets"])) == (300, 2)
    first, last = cofio.json("show", "1"), cofio.json("show", "300")
    assert (first["source"], first["created_at"][:10], last["source"], last["tags"]) == (
        "mine",
        "2026-02-20",
        "bulk",
        ["t299"],
    )


@pytest.mark.parametrize(
    ("line", "says"),
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
def test_a_bad_line_is_named_and_nothing_is_added(cofio: Cofio, line: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_bytes(b'{"text": "good"}\n\n' + line + b'\n{"text": "good too"}\n')
    done = cofio("add", "--jsonl", str(path))
    assert done.exit_code == 1
    assert "Line 3" in done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.output
    assert cofio.json("stats")["memories"] == 0
    piped = cofio("add", "--jsonl", "-", says=path.read_bytes())
    assert (piped.exit_code, "Line 3" in piped.stderr, cofio.json("stats")["memories"]) == (1, True, 0)


def test_texts_and_a_file_together_are_wrong_usage(cofio: Cofio, tmp_path: Path) -> None:
    (tmp_path / "facts.jsonl").touch()
    assert cofio("add", "x", "--jsonl", str(tmp_path / "facts.jsonl")).exit_code == 2


# ── search, show, list ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def filled(cofio: Cofio) -> Cofio:
    cofio.lines("add", "We deploy with Fly.io", "--source", "acme/web", "--kind", "technology", "--tag", "infra")
    cofio.lines("add", "We deploy docs with Netlify", "--source", "acme/docs", "--visibility", "team")
    cofio.lines("add", "Bob prefers spaces", "--source", "other", "--kind", "preference", "--project", "./web")
    return cofio


def test_a_search_in_json_has_the_shape_of_the_service(filled: Cofio) -> None:
    told = filled.json("search", "deploy with Fly.io", "--explain")
    assert (told["query"], told["count"]) == ("deploy with Fly.io", len(told["results"]))
    assert told["results"][0]["id"] == 1
    assert {"score", "similarity", "keyword_score", "match_type", "why"} <= told["results"][0].keys()


def test_explain_shows_the_formula_and_the_words(filled: Cofio) -> None:
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
def test_search_and_list_are_narrowed_by_the_same_options(filled: Cofio, options: list[str], ids: set[int]) -> None:
    assert {each["id"] for each in filled.json("list", *options)["memories"]} == ids
    assert {each["id"] for each in filled.json("search", "we deploy spaces", *options)["results"]} <= ids


def test_a_search_without_a_hit_says_so_and_is_no_error(cofio: Cofio) -> None:
    done = cofio("search", "anything")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "No matching memories" in done.stderr
    assert cofio.json("search", "anything") == {"query": "anything", "count": 0, "poor_match": False, "results": []}


def test_search_says_when_nothing_fits_well(cofio: Cofio) -> None:
    cofio.lines("add", "The auth bug was a missing cookie flag")
    weak = cofio("search", "bananas")
    assert "No memory matches well" in weak.stderr
    assert "weak" in weak.stdout
    assert cofio.json("search", "bananas")["poor_match"] is True
    strong = cofio("search", "the auth bug was a missing cookie flag")
    assert "No memory matches well" not in strong.stderr
    assert "strong" in strong.stdout
    assert cofio.json("search", "missing cookie flag")["results"][0]["strength"] == "strong"


def test_a_threshold_applies_to_every_hit(filled: Cofio) -> None:
    assert filled.json("search", "deploy", "--threshold", "1")["count"] == 0


def test_a_memory_is_shown_with_all_its_fields(filled: Cofio) -> None:
    shown = dict(line.split("\t", 1) for line in filled.lines("show", "1"))
    assert (shown["text"], shown["source"], shown["tags"]) == ("We deploy with Fly.io", "acme/web", "infra")
    assert filled.json("show", "1")["timestamp"] == shown["created_at"]


def test_an_unknown_memory_is_an_error_with_a_hint(cofio: Cofio) -> None:
    done = cofio("show", "99")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: There is no memory 99.\n")
    done = cofio("--json", "show", "99")
    assert (done.exit_code, done.stdout) == (1, "")
    assert _error(done.stderr)["code"] == "not_found"
    assert _error(done.stderr)["hint"]


def test_a_list_goes_on_from_page_to_page(filled: Cofio) -> None:
    first = filled.json("list", "-n", "2")
    assert ([each["id"] for each in first["memories"]], first["next"], first["total"]) == ([3, 2], 2, 3)
    assert [each["id"] for each in filled.json("list", "--after", "2")["memories"]] == [1]
    assert "--after 2" in filled("list", "-n", "2").stderr


def test_an_empty_store_is_said_to_be_empty(cofio: Cofio) -> None:
    done = cofio("list")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "no matching memories" in done.stderr


# ── edit, forget, restore ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_memory_is_edited_by_options(filled: Cofio) -> None:
    told = filled.json("edit", "1", "--text", "We deploy with Render", "--pin", "--tag", "cloud", "--why", "moved")
    assert (told["action"], told["memory"]["text"], told["memory"]["pinned"]) == ("edit", "We deploy with Render", True)
    assert told["memory"]["tags"] == ["cloud"]
    assert filled.json("edit", "1", "--unpin", "--tag", "")["memory"]["tags"] == []
    for project in ("/srv/web", ""):
        assert filled.json("edit", "1", "--project", project)["memory"]["project"] == project
    assert filled.json("history", "1")["changes"][1]["why"] == "moved"


def test_without_a_terminal_there_is_no_editor_to_wait_for(filled: Cofio) -> None:
    done = filled("edit", "1")
    assert done.exit_code == 2
    assert "--text" in done.output


def test_what_is_forgotten_is_archived_and_can_be_restored(filled: Cofio) -> None:
    assert filled.lines("forget", "1", "2") == [
        "1\tarchived\tWe deploy with Fly.io",
        "2\tarchived\tWe deploy docs with Netlify",
    ]
    assert filled.json("list")["total"] == 1
    assert "archived" in filled.lines("list", "--archived")[-1]
    told = filled.json("restore", "1")
    assert told["results"][0] == {"id": 1, "action": "restore", "changeset": told["results"][0]["changeset"]}
    assert filled.json("list")["total"] == 2


def test_a_superseded_memory_is_archived_and_named(filled: Cofio) -> None:
    told = filled.json("supersede", "1", "We deploy with Render", "--why", "cheaper")
    assert (told["old_id"], told["previous_text"]) == (1, "We deploy with Fly.io")
    assert told["memory"]["supersedes"] == 1
    assert filled.json("show", "1")["superseded_by"] == told["new_id"]
    assert filled.lines("supersede", "2", "We deploy docs with Pages")[0].endswith("We deploy docs with Pages")


def test_one_unknown_id_keeps_all_from_being_forgotten(filled: Cofio) -> None:
    assert filled("forget", "1", "99").exit_code == 1
    assert filled.json("list")["total"] == 3


def test_a_purge_asks_first(filled: Cofio) -> None:
    no = filled("forget", "1", "--purge", says="n\n")
    assert (no.exit_code, filled.json("list")["total"]) == (0, 3)
    assert "We deploy with Fly.io" in no.stderr
    nobody = filled("forget", "1", "--purge")
    assert (nobody.exit_code, "--yes" in nobody.stderr, filled.json("list")["total"]) == (1, True, 3)
    assert filled("forget", "1", "--purge", says="y\n").exit_code == 0
    assert filled("show", "1").exit_code == 1
    assert filled.json("forget", "2", "--purge", "--yes")["results"][0]["action"] == "purge"


# ── history, undo ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_undo_goes_back_step_by_step_and_can_be_taken_back(filled: Cofio) -> None:
    filled.lines("edit", "3", "--text", "Bob prefers tabs")
    asked = filled("undo", says="y\n")
    assert asked.exit_code == 0
    assert "Bob prefers tabs" in asked.stderr
    assert filled.json("show", "3")["text"] == "Bob prefers spaces"
    assert filled.json("undo", "--yes")["undoes"] == 3
    assert filled("show", "3").exit_code == 1
    assert filled.json("undo", "6", "--yes")["undoes"] == 6  # an undo is undone by its number
    assert filled.json("show", "3")["text"] == "Bob prefers spaces"
    told = filled.json("history")["changesets"]
    lineage = [(each["id"], each["undoes"], each["undone_by"]) for each in told[:3]]
    assert lineage == [(7, 6, None), (6, 3, 7), (5, 4, None)]


def test_a_refused_undo_changes_nothing(filled: Cofio) -> None:
    assert filled("undo", says="n\n").exit_code == 0
    assert filled.json("undo", says="no\n") is None
    assert filled.json("list")["total"] == 3
    filled.lines("undo", "3", "--yes")
    again = filled("undo", "3", "--yes")
    assert (again.exit_code, "undone already" in again.stderr) == (1, True)


def test_with_nothing_to_undo_undo_says_so(cofio: Cofio) -> None:
    done = cofio("undo", "--json")
    assert (done.exit_code, _error(done.stderr)["code"]) == (1, "conflict")


def test_history_shows_changesets_and_the_life_of_a_memory(filled: Cofio) -> None:
    filled.lines("edit", "1", "--pin")
    assert [line.split("\t")[0] for line in filled.lines("history", "-n", "2")] == ["4", "3"]
    lines = filled.lines("history", "1")
    assert [line.split("\t")[3] for line in lines] == ["add", "edit"]
    assert lines[1].endswith("(pinned)")
    assert filled.lines("history", "--changeset", "4") == lines[1:]
    assert filled.json("history", "--changeset", "4")["changes"][0]["memory_id"] == 1
    assert filled("history", "1", "--changeset", "4").exit_code == 2


# ── upkeep ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_stats_count(filled: Cofio) -> None:
    assert filled.json("stats")["memories"] == 3
    lines = dict(line.split("\t", 1) for line in filled.lines("stats"))
    assert lines["memories"] == "3"
    assert lines["by_source"] == "acme/docs 1, acme/web 1, other 1"


def test_dedup_is_dry_until_it_is_to_be_applied(cofio: Cofio) -> None:
    cofio.lines("add", "Ada likes tea!", "ada likes tea", "--no-dedup")
    dry = cofio("dedup")
    assert dry.stdout.startswith("2\tada likes tea\t1\tAda likes tea!\t")
    assert "--apply" in dry.stderr
    assert cofio.json("list")["total"] == 2
    told = cofio.json("dedup", "--apply")
    assert (told["dry_run"], told["count"], told["decisions"][0]["into"]) == (False, 1, 1)
    assert cofio.json("list")["total"] == 1
    cofio.lines("undo", str(told["changeset"]), "--yes")
    assert cofio.json("list")["total"] == 2
    assert "no duplicates" in cofio("dedup", "--source-prefix", "nowhere").stderr


def test_reembed_embeds_everything(filled: Cofio) -> None:
    filled.lines("forget", "3")
    assert filled.json("reembed")["embedded"] == 3
    assert filled.json("reembed", "--missing")["embedded"] == 0
    assert filled.json("search", "Fly.io", "-k", "1")["results"][0]["id"] == 1
    assert filled("reembed", "--url", "http://127.0.0.1:1").exit_code == 1


# ── config ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_flags_win_over_variables_over_the_file_over_defaults(cofio: Cofio, tmp_path: Path) -> None:
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


def test_a_setting_is_written_and_told_when_something_wins_over_it(cofio: Cofio) -> None:
    assert cofio.json("config", "set", "dedup_threshold", "0.8")["value"] == 0.8
    assert cofio.lines("config", "path") == [str(cofio.home / "config.toml")]
    overruled = cofio("config", "set", "host", "::1", env={"COFIO_HOST": "127.0.0.1"})
    assert "COFIO_HOST" in overruled.stderr


@pytest.mark.parametrize("bad", [["port", "many"], ["port", "99999"], ["dedup_threshold", "2"], ["colour", "red"]])
def test_a_setting_that_cannot_be_is_not_written(cofio: Cofio, bad: list[str]) -> None:
    done = cofio("config", "set", *bad)
    assert (done.exit_code, "Traceback" in done.output) == (1, False)
    assert not (cofio.home / "config.toml").exists()
    assert cofio("config").exit_code == 0


def test_a_key_is_asked_for_unseen_and_never_shown(cofio: Cofio) -> None:
    done = cofio("config", "set", "api_key", says="very secret\n")
    assert done.exit_code == 0, done.output
    for arguments in (["config"], ["config", "--json"]):
        shown = cofio(*arguments).output
        assert "very secret" not in shown
        assert "api_key" in shown
    path = cofio.home / "config.toml"
    assert "very secret" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


def test_a_broken_file_is_told_with_its_path(cofio: Cofio) -> None:
    cofio.home.mkdir()
    (cofio.home / "config.toml").write_text("port = \n")
    done = cofio("list")
    assert (done.exit_code, "config.toml" in done.stderr) == (1, True)


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for name, each in group.commands.items():
        found.append((*path, name))
        if isinstance(each, click.Group):
            found += _commands(each, (*path, name))
    return found


@pytest.mark.parametrize("path", [(), *_commands(cli)], ids=" ".join)
def test_the_help_of_every_command_has_an_example_and_says_what_options_do(cofio: Cofio, path: tuple[str, ...]) -> None:
    for flag in ("-h", "--help"):
        done = cofio(*path, flag)
        assert done.exit_code == 0
        assert "Examples:" in done.stdout
        assert " ".join(("cofio", *path)) in done.stdout.partition("Examples:")[2]
    assert "--json" in done.stdout
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    assert command.help
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert [option.name for option in options if not option.help and not option.hidden] == []


def test_every_command_stands_under_a_heading(cofio: Cofio) -> None:
    shown = cofio("--help").stdout
    for name in cli.commands:
        assert f"\n  {name} " in shown


def test_no_arguments_show_the_help(cofio: Cofio) -> None:
    assert "Usage: cofio" in cofio().output


@pytest.mark.parametrize(
    "arguments",
    [["unheard"], ["search"], ["show", "x"], ["search", "x", "--kind", "zebra"], ["list", "--since", "soon"]],
)
def test_wrong_usage_exits_with_two(cofio: Cofio, arguments: list[str]) -> None:
    done = cofio(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Usage:" in done.stderr
    done = cofio(*arguments, "--json")
    assert (done.exit_code, done.stdout, _error(done.stderr)["code"]) == (2, "", "usage")


def test_the_version_is_shown(cofio: Cofio) -> None:
    assert cofio("--version").stdout.startswith("cofio 0.")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion_script(cofio: Cofio, shell: str) -> None:
    script = "\n".join(cofio.lines("completion", shell))
    assert "_COFIO_COMPLETE" in script
    assert cofio.json("completion", shell)["script"].strip() == script.strip()


def test_the_script_completes_commands(cofio: Cofio) -> None:
    done = cofio(env={"_COFIO_COMPLETE": "bash_complete", "COMP_WORDS": "cofio se", "COMP_CWORD": "1"})
    assert {line.partition(",")[2] for line in done.stdout.splitlines()} == {"search", "serve", "sessions"}


def test_a_service_that_was_named_is_the_one_that_is_asked(cofio: Cofio) -> None:
    by_variable = cofio("list", env={"COFIO_URL": "http://127.0.0.1:1"})
    for done in (by_variable, cofio("--url", "http://127.0.0.1:1", "list")):
        assert (done.exit_code, "http://127.0.0.1:1" in done.stderr) == (1, True)


# ── what a memory may hold ────────────────────────────────────────────────────────────────────────────────────────────

EVIL = "[bold red]x[/bold red] \x1b]0;owned\x07 \x1b[31mred\r\u202eabc \x9b2J :smile: tab\there\nnext"


def test_piped_lines_keep_one_memory_a_line_without_control_characters(cofio: Cofio) -> None:
    told = cofio.json("add", EVIL)
    assert told["results"][0]["text"] == EVIL
    for command in (["list"], ["search", "smile", "tab"], ["history", "1"], ["show", "1"], ["forget", "1"]):
        output = cofio(*command).output
        assert not set(output) & set("\x1b\x07\x9b\r\u202e")
    assert r"[bold red]x[/bold red] \x1b]0;owned\x07 \x1b[31mred\r\u202eabc \x9b2J :smile: tab\there\nnext" in output


def test_json_keeps_what_a_memory_holds(cofio: Cofio) -> None:
    cofio.json("add", EVIL)
    done = cofio("show", "1", "--json")
    assert json.loads(done.stdout)["text"] == EVIL
    assert "\x1b" not in done.stdout


def test_the_environment_is_read_by_the_settings_alone() -> None:
    package = Path(__file__).parents[2] / "src" / "cofio"
    readers = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if any(word in path.read_text(encoding="utf-8") for word in ("os.environ", "os.getenv", "environb"))
    }
    assert readers == {"settings.py"}


def test_a_store_that_is_not_there_is_not_an_empty_memory(cofio: Cofio, tmp_path: Path) -> None:
    missing = tmp_path / "typo" / "cofio.db"
    done = cofio("search", "anything", "--store", str(missing))
    assert done.exit_code == 1
    assert "no store" in done.output
    assert not missing.exists()
    assert cofio("add", "a first fact", "--store", str(missing)).exit_code == 0
    assert missing.stat().st_mode & 0o077 == 0
    assert missing.parent.stat().st_mode & 0o077 == 0


def test_history_says_what_happened(filled: Cofio) -> None:
    filled("forget", "1")
    assert "1: We deploy with Fly.io" in filled.lines("history")[0]
