"""Knowledge commands: put, check, feedback, list and undo."""

from __future__ import annotations

from typing import Any

import pytest
from click.shell_completion import ShellComplete

from cofio.cli import CliContext, cli
from cofio.core import Keeper
from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import TABLES, as_quantity
from cofio.settings import Settings
from tests.cli.conftest import InProcessCli, hashing_keeper, running_service

REF = "thresholds/aapl.volume.above"


@pytest.fixture
def cli_with_knowledge(cofio: InProcessCli) -> InProcessCli:
    cofio.lines("knowledge", "threshold", "AAPL", "volume", "above", "5M", "--confidence", "0.6")
    cofio.lines("knowledge", "pattern", "volume spikes before earnings", "--source", "AAPL", "--confidence", "0.8")
    cofio.lines("knowledge", "correlation", "BTC", "COIN", "BTC leads COIN", "--relation", "leads")
    cofio.lines("knowledge", "seasonal", "low volume", "weekly", "--during", "fri 12:00-16:00", "--source", "AAPL")
    return cofio


def split_columns(lines: list[str]) -> list[list[str]]:
    return [line.split("\t") for line in lines]


# ── put ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_threshold_is_added_updated_and_recognized(cofio: InProcessCli) -> None:
    values = ("knowledge", "threshold", "AAPL", "volume", "above")
    result = cofio(*values, "5M", "--why", "said so")
    assert result.stdout.split("\t")[:5] == [REF, "added", "0.50", "", "AAPL/volume: above 5000000"]
    assert result.stderr == "Changeset 1; `cofio undo 1` reverts it.\n"
    changed = cofio.json(*values, "6M", "--inclusive")
    assert (changed["action"], changed["before"]["value"], changed["after"]["inclusive"]) == ("update", 5e6, True)
    repeated = cofio(*values, "6M")
    assert repeated.stdout.split("\t")[1] == "known"
    assert "exists already" in repeated.stderr


def test_quantities_accept_common_notations(cofio: InProcessCli) -> None:
    cofio.lines("knowledge", "threshold", "freezer", "temperature", "above", "-18", "--unit", "°C")
    cofio.lines("knowledge", "threshold", "web", "latency", "above", "250ms")
    cofio.lines("knowledge", "threshold", "*", "cpu", "above", "90%")
    stored = {row["id"]: (row["value"], row["unit"]) for row in cofio.json("knowledge", "list", "thresholds")["rows"]}
    assert stored == {
        "freezer.temperature.above": (-18, "°C"),
        "web.latency.above": (250, "ms"),
        "~any.cpu.above": (90, "%"),
    }
    assert cofio.lines("knowledge", "check", "freezer", "temperature", "-12")[0].split("\t")[2] == "6"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5M", (5_000_000, "")), ("2.3M", (2_300_000, "")), ("1,000,000", (1_000_000, "")), ("-2.5", (-2.5, "")),
        ("90%", (90, "%")), ("$1.2B", (1_200_000_000, "$")), ("250 ms", (250, "ms")), ("5 million", (5e6, "")),
        ("−3", (-3, "")), ("1.5e3", (1_500, "")), ("7k", (7_000, "")), ("2GB", (2, "GB")),
        ("300 req/s", (300, "req/s")), ("5mn", (5e6, "")), ("3 Mio", (3e6, "")), ("2 tn", (2e12, "")),
        ("4MM", (4e6, "")), ("4 mm", (4, "mm")), ("3 millions", (3e6, "")), ("$5 B", (5e9, "$")),
        ("500B", (5e11, "")), ("20 percent", (20, "%")),
    ],
)  # fmt: skip
def test_quantity_is_parsed(text: str, expected: tuple[float, str]) -> None:
    assert as_quantity(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "five", "2,5", "5m", "5b", "500 B", "300 K", "1e400", "nan", "inf", "5M5", "1.2.3", "٣", "--5"],
)
def test_invalid_or_ambiguous_quantity_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        as_quantity(text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("threshold", "AAPL", "volume", "above", "much"),
        ("threshold", "AAPL", "volume", "above", "5m"),
        ("threshold", "AAPL", "volume", "sideways", "5M"),
        ("threshold", "AAPL", "volume", "above", "5M", "--confidnce", "0.8"),
        ("threshold", "AAPL", "volume", "above", "5M", "--confidence", "1.5"),
        ("threshold", "web", "latency", "above", "250ms", "--unit", "s"),
        ("seasonal", "low volume", "fortnightly"),
        ("feedback", "a1", "perhaps"),
        ("feedback", "a1", "confirmed", "--about", "aapl.volume.above"),
        ("show", "aapl.volume.above"),
        ("list", "hunches"),
        ("list", "--source", "AAPL"),
        ("list", "correlations", "--source", "BTC"),
    ],
)
def test_usage_error_stores_nothing(cofio: InProcessCli, arguments: tuple[str, ...]) -> None:
    result = cofio("knowledge", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr
    assert not cofio.home.exists()


def test_invalid_value_is_an_error_with_hint(cofio: InProcessCli) -> None:
    for arguments in (
        ("seasonal", "low volume", "weekly", "--during", "someday"),
        ("seasonal", "low volume", "daily", "--timezone", "Mars/Olympus"),
        ("correlation", "BTC", "btc", "with itself"),
        ("threshold", "AAPL", " ", "above", "5M"),
    ):
        result = cofio("knowledge", *arguments)
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 2
    assert cofio.json("knowledge", "list") == dict.fromkeys(TABLES, 0)


# ── list and show ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tables_are_counted_listed_and_filtered(cli_with_knowledge: InProcessCli) -> None:
    assert split_columns(cli_with_knowledge.lines("knowledge", "list")) == [
        ["patterns", "1"], ["correlations", "1"], ["thresholds", "1"], ["seasonal", "1"], ["feedback", "0"],
    ]  # fmt: skip
    [pattern] = split_columns(cli_with_knowledge.lines("knowledge", "list", "patterns"))
    assert pattern[1:5] == ["0.80", "", "volume spikes before earnings", "AAPL"]
    [season] = split_columns(cli_with_knowledge.lines("knowledge", "list", "seasonal"))
    assert season[3] == "low volume (weekly, fri 12:00-16:00)"
    assert cli_with_knowledge.lines("knowledge", "list", "patterns", "--min-confidence", "0.9") == []
    assert (
        len(cli_with_knowledge.lines("knowledge", "list", "thresholds", "--source", "aapl", "--metric", "volume")) == 1
    )
    nothing = cli_with_knowledge("knowledge", "list", "thresholds", "--source", "MSFT")
    assert (nothing.stdout, nothing.stderr) == ("", "There are no matching rows.\n")


def test_long_table_is_paginated(cofio: InProcessCli) -> None:
    for number in range(5):
        cofio.lines("knowledge", "pattern", f"pattern {number}", "--id", f"p{number}")
    first = cofio("knowledge", "list", "patterns", "-n", "3")
    assert [row[0] for row in split_columns(first.stdout.splitlines())] == ["patterns/p0", "patterns/p1", "patterns/p2"]
    assert "--after p2" in first.stderr
    page = cofio.json("knowledge", "list", "patterns", "-n", "3", "--after", "p2")
    assert ([row["id"] for row in page["rows"]], page["next"]) == (["p3", "p4"], None)


def test_show_prints_a_row_with_history(cli_with_knowledge: InProcessCli) -> None:
    cli_with_knowledge.lines("knowledge", "threshold", "AAPL", "volume", "above", "6M")
    result = dict(split_columns(cli_with_knowledge.lines("knowledge", "show", REF)))
    assert (result["ref"], result["says"], result["value"]) == (REF, "AAPL/volume: above 6000000", "6000000")
    assert cli_with_knowledge.json("knowledge", "show", REF)["table"] == "thresholds"
    steps = split_columns(cli_with_knowledge.lines("knowledge", "history", REF))
    assert [(row[2], row[5]) for row in steps] == [
        ("add", "AAPL/volume: above 5000000"),
        ("update", "AAPL/volume: above 6000000"),
    ]
    missing = cli_with_knowledge("knowledge", "show", "thresholds/none")
    assert missing.exit_code == 1
    assert "cofio knowledge list" in missing.stderr


# ── check ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_check_without_result_reports_other_units(cofio: InProcessCli) -> None:
    cofio.lines("knowledge", "threshold", "db", "lag", "above", "30s")
    check = ("knowledge", "check", "db")
    assert cofio(*check, "lag", "20s").stderr == "db/lag 20s crosses no threshold.\n"
    assert 'The threshold "db/lag: above 30s" has another unit' in cofio(*check, "lag", "45000ms").stderr
    assert "No threshold exists for that metric" in cofio(*check, "lagg", "45s").stderr
    cofio.lines("knowledge", "threshold", "*", "lagg", "above", "60s")
    assert cofio(*check, "lagg", "45s").stderr == "db/lagg 45s crosses no threshold.\n"


def test_unit_is_kept_until_changed(cofio: InProcessCli) -> None:
    values = ("knowledge", "threshold", "db", "lag", "above")
    cofio.lines(*values, "30s")
    units = [cofio.json(*values, *item)["after"]["unit"] for item in (["40"], ["40ms"], ["40", "--unit", ""], ["50"])]
    assert units == ["s", "ms", "", ""]


def test_check_prints_exceeded_thresholds(cli_with_knowledge: InProcessCli) -> None:
    assert split_columns(cli_with_knowledge.lines("knowledge", "check", "AAPL", "volume", "6.2M")) == [
        [REF, "AAPL/volume: above 5000000", "1200000", "0.60"]
    ]
    quiet = cli_with_knowledge("knowledge", "check", "AAPL", "volume", "4M")
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    assert "AAPL/volume 4000000 crosses no threshold." in quiet.stderr
    assert cli_with_knowledge.json("knowledge", "check", "AAPL", "volume", "4M") == {"firing": []}


def test_active_prints_current_seasonal_patterns(cli_with_knowledge: InProcessCli) -> None:
    [row] = split_columns(cli_with_knowledge.lines("knowledge", "active", "--at", "2026-02-20T13:00:00Z"))
    assert row[1:] == [
        "low volume (weekly, fri 12:00-16:00)", "AAPL", "2026-02-20T12:00:00.000000+00:00",
        "2026-02-20T16:00:00.000000+00:00", "0.50",
    ]  # fmt: skip
    result = cli_with_knowledge("knowledge", "active", "--at", "2026-02-21")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No seasonal pattern is active at that time.\n")
    assert cli_with_knowledge("knowledge", "active").exit_code == 0
    assert cli_with_knowledge("knowledge", "active", "--at", "later").exit_code == 2


def test_related_works_in_both_directions(cli_with_knowledge: InProcessCli) -> None:
    ref = "correlations/btc.leads.coin"
    assert split_columns(cli_with_knowledge.lines("knowledge", "related", "BTC")) == [
        ["1", "BTC leads COIN", "0.50", "BTC leads COIN", ref]
    ]
    assert split_columns(cli_with_knowledge.lines("knowledge", "related", "coin"))[0][1] == "COIN follows BTC"
    assert "gold" in cli_with_knowledge("knowledge", "related", "gold").stderr


def test_read_parses_text_without_storing(cli_with_knowledge: InProcessCli) -> None:
    [row] = split_columns(cli_with_knowledge.lines("knowledge", "read", "flag MSFT if volume exceeds 7M"))
    assert row == ["keep", "thresholds", "MSFT/volume: above 7000000", "0.70"]
    [gone] = split_columns(cli_with_knowledge.lines("knowledge", "read", "Do not flag AAPL volume any more."))
    assert gone[:3] == ["drop", "thresholds", "AAPL volume"]
    assert cli_with_knowledge.json("knowledge", "read", "-", input_text="Good morning.") == {"readings": []}
    assert cli_with_knowledge.json("knowledge", "list")["thresholds"] == 1


# ── feedback ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_feedback_changes_confidence_and_is_undone(cli_with_knowledge: InProcessCli) -> None:
    texts = ("knowledge", "feedback", "AAPL monday", "false-alarm", "--about", REF, "--note", "rebalancing")
    result = cli_with_knowledge(*texts)
    [[ref, was, now, says]] = split_columns(result.stdout.splitlines())
    assert (ref, was, says) == (REF, "0.60", "AAPL/volume: above 5000000")
    assert float(now) < 0.6
    assert "Changed the confidence of 1 row (changeset 5; `cofio undo 5` reverts it)." in result.stderr
    repeated = cli_with_knowledge(*texts)
    assert (repeated.exit_code, repeated.stdout, repeated.stderr) == (
        0,
        "",
        "Nothing was changed: this verdict is stored already.\n",
    )
    [row] = split_columns(cli_with_knowledge.lines("knowledge", "list", "feedback"))
    assert row[:5] == ["feedback/aapl_monday", "false alarm", REF, "rebalancing", "counted"]
    assert split_columns(cli_with_knowledge.lines("knowledge", "list", "thresholds"))[0][1:3] == [now, "+0 -1"]
    cli_with_knowledge.lines("undo", "5", "--yes")
    assert split_columns(cli_with_knowledge.lines("knowledge", "list", "thresholds"))[0][1:3] == ["0.60", ""]


def test_feedback_with_later_stays_pending(cli_with_knowledge: InProcessCli) -> None:
    assert "no pending verdicts" in cli_with_knowledge("knowledge", "process").stderr
    assert cli_with_knowledge.json("knowledge", "process") is None
    pending = cli_with_knowledge("knowledge", "feedback", "AAPL monday", "confirmed", "--about", REF, "--later")
    assert pending.stdout == ""
    assert "cofio knowledge process" in pending.stderr
    assert split_columns(cli_with_knowledge.lines("knowledge", "list", "feedback"))[0][4] == "pending"
    [[ref, *_]] = split_columns(cli_with_knowledge.lines("knowledge", "process"))
    assert ref == REF
    assert "no pending verdicts" in cli_with_knowledge("knowledge", "process").stderr


def test_feedback_on_unknown_row_is_rejected(cli_with_knowledge: InProcessCli) -> None:
    result = cli_with_knowledge("knowledge", "feedback", "a1", "confirmed", "--about", "thresholds/none")
    assert result.exit_code == 1
    assert "thresholds/none" in result.stderr
    assert cli_with_knowledge.json("knowledge", "list")["feedback"] == 0


# ── delete ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_forgotten_rows_are_restored_by_undo(cli_with_knowledge: InProcessCli) -> None:
    [row] = split_columns(cli_with_knowledge.lines("knowledge", "forget", REF, "--why", "outdated"))
    assert row == [REF, "removed", "AAPL/volume: above 5000000", "5"]
    assert cli_with_knowledge("knowledge", "show", REF).exit_code == 1
    cli_with_knowledge.lines("undo", "--yes")
    assert cli_with_knowledge("knowledge", "show", REF).exit_code == 0
    missing = cli_with_knowledge("knowledge", "forget", REF, "thresholds/none")
    assert missing.exit_code == 1
    assert cli_with_knowledge("knowledge", "show", REF).exit_code == 0  # all rows must exist, or nothing is deleted


def test_purge_requires_confirmation(cli_with_knowledge: InProcessCli) -> None:
    stored = cli_with_knowledge("knowledge", "purge", REF, input_text="n\n")
    assert (stored.exit_code, stored.stdout) == (0, "")
    assert "Erase 1 row permanently? [y/N]" in stored.stderr
    assert "Nothing was changed." in stored.stderr
    assert cli_with_knowledge.json("knowledge", "purge", REF, "--yes")["results"][0]["action"] == "purge"
    assert cli_with_knowledge("knowledge", "show", REF).exit_code == 1
    assert (
        "5000000" not in cli_with_knowledge("history").output + cli_with_knowledge("knowledge", "history", REF).output
    )


def test_undo_skips_noop_changesets(cli_with_knowledge: InProcessCli) -> None:
    cli_with_knowledge.lines("knowledge", "correlation", "BTC", "COIN", "BTC leads COIN", "--relation", "leads")
    cli_with_knowledge.lines("undo", "--yes")
    assert cli_with_knowledge.json("knowledge", "list") == {
        **cli_with_knowledge.json("knowledge", "list"),
        "seasonal": 0,
        "correlations": 1,
    }


def test_history_describes_knowledge_changes(cli_with_knowledge: InProcessCli) -> None:
    cli_with_knowledge.lines("knowledge", "forget", REF)
    newest = split_columns(cli_with_knowledge.lines("history"))[0]
    assert REF in newest[4]
    assert "AAPL/volume: above 5000000" in newest[4]
    request = cli_with_knowledge("undo", input_text="n\n")
    assert REF in request.stderr


# ── with a service ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_commands_work_through_a_service(cli_with_knowledge: InProcessCli, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.load({"home": str(cli_with_knowledge.home), "port": 0}, environ={})
    opened: list[Keeper] = []
    with hashing_keeper(settings) as keeper, running_service(keeper, settings) as url:
        opened.append(keeper)
        env = {"COFIO_URL": url}

        def refuse(*_: Any) -> Keeper:
            raise AssertionError("the store was opened beside the service")

        monkeypatch.setattr("tests.cli.conftest.hashing_keeper", refuse)
        assert cli_with_knowledge.json("knowledge", "list", env=env)["thresholds"] == 1
        assert (
            split_columns(cli_with_knowledge.lines("knowledge", "check", "AAPL", "volume", "6M", env=env))[0][0] == REF
        )
        cli_with_knowledge.lines("knowledge", "feedback", "a1", "confirmed", "--about", REF, env=env)
        assert cli_with_knowledge.json("knowledge", "show", REF, env=env)["confirmed"] == 1
        assert cli_with_knowledge("knowledge", "show", "thresholds/none", env=env).exit_code == 1


def complete(known: InProcessCli, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COFIO_HOME", str(known.home))
    session = CliContext(open_keeper=hashing_keeper)
    shell = ShellComplete(cli, {"obj": session}, "cofio", "_COFIO_COMPLETE")
    return [
        get_completion.value for get_completion in shell.get_completions(["knowledge", *arguments[:-1]], arguments[-1])
    ]


def test_shell_completes_tables_and_rows(cli_with_knowledge: InProcessCli, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete(cli_with_knowledge, "list", "th", monkeypatch=monkeypatch) == ["thresholds"]
    assert complete(cli_with_knowledge, "show", "s", monkeypatch=monkeypatch) == ["seasonal/"]
    assert complete(cli_with_knowledge, "show", "thresholds/", monkeypatch=monkeypatch) == [REF]
    assert complete(
        cli_with_knowledge, "feedback", "a1", "confirmed", "--about", "thresholds/a", monkeypatch=monkeypatch
    ) == [REF]
    assert complete(cli_with_knowledge, "show", "hunches/", monkeypatch=monkeypatch) == []
