"""knowledge as a person types it: keep, check, judge, list, take back."""

from __future__ import annotations

from typing import Any

import pytest
from click.shell_completion import ShellComplete

from cofio.cli import CliContext, cli
from cofio.core import Keeper
from cofio.errors import InvalidInput
from cofio.models.domain_knowledge import TABLES, as_quantity
from cofio.settings import Settings
from tests.cli.conftest import Cofio, hashing_keeper, served

REF = "thresholds/aapl.volume.above"


@pytest.fixture
def known(cofio: Cofio) -> Cofio:
    cofio.lines("knowledge", "threshold", "AAPL", "volume", "above", "5M", "--confidence", "0.6")
    cofio.lines("knowledge", "pattern", "volume spikes before earnings", "--source", "AAPL", "--confidence", "0.8")
    cofio.lines("knowledge", "correlation", "BTC", "COIN", "BTC leads COIN", "--relation", "leads")
    cofio.lines("knowledge", "seasonal", "low volume", "weekly", "--during", "fri 12:00-16:00", "--source", "AAPL")
    return cofio


def rows(lines: list[str]) -> list[list[str]]:
    return [line.split("\t") for line in lines]


# ── keep ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_threshold_is_kept_changed_and_known(cofio: Cofio) -> None:
    given = ("knowledge", "threshold", "AAPL", "volume", "above")
    done = cofio(*given, "5M", "--why", "said so")
    assert done.stdout.split("\t")[:5] == [REF, "added", "0.50", "", "AAPL/volume: above 5000000"]
    assert done.stderr == "Changeset 1; `cofio undo 1` reverts it.\n"
    changed = cofio.json(*given, "6M", "--inclusive")
    assert (changed["action"], changed["before"]["value"], changed["after"]["inclusive"]) == ("update", 5e6, True)
    again = cofio(*given, "6M")
    assert again.stdout.split("\t")[1] == "known"
    assert "exists already" in again.stderr


def test_values_are_written_as_people_write_them(cofio: Cofio) -> None:
    cofio.lines("knowledge", "threshold", "freezer", "temperature", "above", "-18", "--unit", "°C")
    cofio.lines("knowledge", "threshold", "web", "latency", "above", "250ms")
    cofio.lines("knowledge", "threshold", "*", "cpu", "above", "90%")
    kept = {each["id"]: (each["value"], each["unit"]) for each in cofio.json("knowledge", "list", "thresholds")["rows"]}
    assert kept == {
        "freezer.temperature.above": (-18, "°C"),
        "web.latency.above": (250, "ms"),
        "~any.cpu.above": (90, "%"),
    }
    assert cofio.lines("knowledge", "check", "freezer", "temperature", "-12")[0].split("\t")[2] == "6"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("5M", (5_000_000, "")), ("2.3M", (2_300_000, "")), ("1,000,000", (1_000_000, "")), ("-2.5", (-2.5, "")),
        ("90%", (90, "%")), ("$1.2B", (1_200_000_000, "$")), ("250 ms", (250, "ms")), ("5 million", (5e6, "")),
        ("−3", (-3, "")), ("1.5e3", (1_500, "")), ("7k", (7_000, "")), ("2GB", (2, "GB")),
        ("300 req/s", (300, "req/s")), ("5mn", (5e6, "")), ("3 Mio", (3e6, "")), ("2 tn", (2e12, "")),
        ("4MM", (4e6, "")), ("4 mm", (4, "mm")), ("3 millions", (3e6, "")), ("$5 B", (5e9, "$")),
        ("500B", (5e11, "")), ("20 percent", (20, "%")),
    ],
)  # fmt: skip
def test_a_quantity_is_read(text: str, meant: tuple[float, str]) -> None:
    assert as_quantity(text) == meant


@pytest.mark.parametrize(
    "text",
    ["", "five", "2,5", "5m", "5b", "500 B", "300 K", "1e400", "nan", "inf", "5M5", "1.2.3", "٣", "--5"],
)
def test_what_is_no_number_or_may_be_two_is_refused(text: str) -> None:
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
def test_wrong_usage_is_told_and_nothing_kept(cofio: Cofio, arguments: tuple[str, ...]) -> None:
    done = cofio("knowledge", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr
    assert not cofio.home.exists()


def test_what_makes_no_sense_is_an_error_with_a_hint(cofio: Cofio) -> None:
    for arguments in (
        ("seasonal", "low volume", "weekly", "--during", "someday"),
        ("seasonal", "low volume", "daily", "--timezone", "Mars/Olympus"),
        ("correlation", "BTC", "btc", "with itself"),
        ("threshold", "AAPL", " ", "above", "5M"),
    ):
        done = cofio("knowledge", *arguments)
        assert done.exit_code == 1
        assert done.stderr.startswith("Error: ")
        assert done.stderr.count("\n") == 2
    assert cofio.json("knowledge", "list") == dict.fromkeys(TABLES, 0)


# ── look ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_tables_are_counted_listed_and_narrowed(known: Cofio) -> None:
    assert rows(known.lines("knowledge", "list")) == [
        ["patterns", "1"], ["correlations", "1"], ["thresholds", "1"], ["seasonal", "1"], ["feedback", "0"],
    ]  # fmt: skip
    [pattern] = rows(known.lines("knowledge", "list", "patterns"))
    assert pattern[1:5] == ["0.80", "", "volume spikes before earnings", "AAPL"]
    [season] = rows(known.lines("knowledge", "list", "seasonal"))
    assert season[3] == "low volume (weekly, fri 12:00-16:00)"
    assert known.lines("knowledge", "list", "patterns", "--min-confidence", "0.9") == []
    assert len(known.lines("knowledge", "list", "thresholds", "--source", "aapl", "--metric", "volume")) == 1
    nothing = known("knowledge", "list", "thresholds", "--source", "MSFT")
    assert (nothing.stdout, nothing.stderr) == ("", "There are no matching rows.\n")


def test_a_long_table_is_listed_page_by_page(cofio: Cofio) -> None:
    for number in range(5):
        cofio.lines("knowledge", "pattern", f"pattern {number}", "--id", f"p{number}")
    first = cofio("knowledge", "list", "patterns", "-n", "3")
    assert [row[0] for row in rows(first.stdout.splitlines())] == ["patterns/p0", "patterns/p1", "patterns/p2"]
    assert "--after p2" in first.stderr
    page = cofio.json("knowledge", "list", "patterns", "-n", "3", "--after", "p2")
    assert ([each["id"] for each in page["rows"]], page["next"]) == (["p3", "p4"], None)


def test_one_row_is_shown_with_its_history(known: Cofio) -> None:
    known.lines("knowledge", "threshold", "AAPL", "volume", "above", "6M")
    told = dict(rows(known.lines("knowledge", "show", REF)))
    assert (told["ref"], told["says"], told["value"]) == (REF, "AAPL/volume: above 6000000", "6000000")
    assert known.json("knowledge", "show", REF)["table"] == "thresholds"
    steps = rows(known.lines("knowledge", "history", REF))
    assert [(row[2], row[5]) for row in steps] == [
        ("add", "AAPL/volume: above 5000000"),
        ("update", "AAPL/volume: above 6000000"),
    ]
    missing = known("knowledge", "show", "thresholds/none")
    assert missing.exit_code == 1
    assert "cofio knowledge list" in missing.stderr


# ── ask ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_nothing_fires_it_is_told_whether_anything_could(cofio: Cofio) -> None:
    cofio.lines("knowledge", "threshold", "db", "lag", "above", "30s")
    check = ("knowledge", "check", "db")
    assert cofio(*check, "lag", "20s").stderr == "No threshold is crossed: db/lag 20s.\n"
    assert "db/lag: above 30s has another unit" in cofio(*check, "lag", "45000ms").stderr
    assert "No threshold exists for that metric" in cofio(*check, "lagg", "45s").stderr
    cofio.lines("knowledge", "threshold", "*", "lagg", "above", "60s")
    assert cofio(*check, "lagg", "45s").stderr == "No threshold is crossed: db/lagg 45s.\n"


def test_a_unit_stays_until_another_or_none_is_named(cofio: Cofio) -> None:
    given = ("knowledge", "threshold", "db", "lag", "above")
    cofio.lines(*given, "30s")
    units = [cofio.json(*given, *each)["after"]["unit"] for each in (["40"], ["40ms"], ["40", "--unit", ""], ["50"])]
    assert units == ["s", "ms", "", ""]


def test_a_value_is_checked(known: Cofio) -> None:
    assert rows(known.lines("knowledge", "check", "AAPL", "volume", "6.2M")) == [
        [REF, "AAPL/volume: above 5000000", "1200000", "0.60"]
    ]
    quiet = known("knowledge", "check", "AAPL", "volume", "4M")
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    assert "No threshold is crossed: AAPL/volume 4000000" in quiet.stderr
    assert known.json("knowledge", "check", "AAPL", "volume", "4M") == {"firing": []}


def test_what_is_on_at_a_time_is_told(known: Cofio) -> None:
    [row] = rows(known.lines("knowledge", "active", "--at", "2026-02-20T13:00:00Z"))
    assert row[1:] == [
        "low volume (weekly, fri 12:00-16:00)", "AAPL", "2026-02-20T12:00:00.000000+00:00",
        "2026-02-20T16:00:00.000000+00:00", "0.50",
    ]  # fmt: skip
    done = known("knowledge", "active", "--at", "2026-02-21")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "No seasonal pattern is active at that time.\n")
    assert known("knowledge", "active").exit_code == 0
    assert known("knowledge", "active", "--at", "later").exit_code == 2


def test_what_goes_together_is_told_from_either_side(known: Cofio) -> None:
    ref = "correlations/btc.leads.coin"
    assert rows(known.lines("knowledge", "related", "BTC")) == [["1", "BTC leads COIN", "0.50", "BTC leads COIN", ref]]
    assert rows(known.lines("knowledge", "related", "coin"))[0][1] == "COIN follows BTC"
    assert "gold" in known("knowledge", "related", "gold").stderr


def test_a_text_is_read_and_nothing_kept(known: Cofio) -> None:
    [row] = rows(known.lines("knowledge", "read", "flag MSFT if volume exceeds 7M"))
    assert row == ["keep", "thresholds", "MSFT/volume: above 7000000", "0.70"]
    [gone] = rows(known.lines("knowledge", "read", "Do not flag AAPL volume any more."))
    assert gone[:3] == ["drop", "thresholds", "AAPL volume"]
    assert known.json("knowledge", "read", "-", says="Good morning.") == {"readings": []}
    assert known.json("knowledge", "list")["thresholds"] == 1


# ── judge ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_verdict_moves_what_it_judges_and_is_taken_back(known: Cofio) -> None:
    said = ("knowledge", "feedback", "AAPL monday", "false-alarm", "--about", REF, "--note", "rebalancing")
    done = known(*said)
    [[ref, was, now, says]] = rows(done.stdout.splitlines())
    assert (ref, was, says) == (REF, "0.60", "AAPL/volume: above 5000000")
    assert float(now) < 0.6
    assert "Changed 1 claim (changeset 5; `cofio undo 5` reverts it)." in done.stderr
    again = known(*said)
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "This verdict exists already.\n")
    [row] = rows(known.lines("knowledge", "list", "feedback"))
    assert row[:5] == ["feedback/aapl_monday", "false alarm", REF, "rebalancing", "counted"]
    assert rows(known.lines("knowledge", "list", "thresholds"))[0][1:3] == [now, "+0 -1"]
    known.lines("undo", "5", "--yes")
    assert rows(known.lines("knowledge", "list", "thresholds"))[0][1:3] == ["0.60", ""]


def test_a_verdict_may_wait(known: Cofio) -> None:
    assert "no pending verdicts" in known("knowledge", "process").stderr
    assert known.json("knowledge", "process") is None
    waiting = known("knowledge", "feedback", "AAPL monday", "confirmed", "--about", REF, "--later")
    assert waiting.stdout == ""
    assert "cofio knowledge process" in waiting.stderr
    assert rows(known.lines("knowledge", "list", "feedback"))[0][4] == "pending"
    [[ref, *_]] = rows(known.lines("knowledge", "process"))
    assert ref == REF
    assert "no pending verdicts" in known("knowledge", "process").stderr


def test_a_verdict_on_what_is_not_there_is_refused(known: Cofio) -> None:
    done = known("knowledge", "feedback", "a1", "confirmed", "--about", "thresholds/none")
    assert done.exit_code == 1
    assert "thresholds/none" in done.stderr
    assert known.json("knowledge", "list")["feedback"] == 0


# ── take away ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_are_forgotten_and_come_back(known: Cofio) -> None:
    [row] = rows(known.lines("knowledge", "forget", REF, "--why", "outdated"))
    assert row == [REF, "removed", "AAPL/volume: above 5000000", "5"]
    assert known("knowledge", "show", REF).exit_code == 1
    known.lines("undo", "--yes")
    assert known("knowledge", "show", REF).exit_code == 0
    missing = known("knowledge", "forget", REF, "thresholds/none")
    assert missing.exit_code == 1
    assert known("knowledge", "show", REF).exit_code == 0  # all of them exist, or none is touched


def test_a_purge_asks_first(known: Cofio) -> None:
    kept = known("knowledge", "purge", REF, says="n\n")
    assert (kept.exit_code, kept.stdout) == (0, "")
    assert "Erase 1 row permanently? [y/N]" in kept.stderr
    assert "Nothing was changed." in kept.stderr
    assert known.json("knowledge", "purge", REF, "--yes")["results"][0]["action"] == "purge"
    assert known("knowledge", "show", REF).exit_code == 1
    assert "5000000" not in known("history").output + known("knowledge", "history", REF).output


def test_undo_passes_over_what_changed_nothing(known: Cofio) -> None:
    known.lines("knowledge", "correlation", "BTC", "COIN", "BTC leads COIN", "--relation", "leads")
    known.lines("undo", "--yes")
    assert known.json("knowledge", "list") == {**known.json("knowledge", "list"), "seasonal": 0, "correlations": 1}


def test_the_journal_reads_well(known: Cofio) -> None:
    known.lines("knowledge", "forget", REF)
    newest = rows(known.lines("history"))[0]
    assert REF in newest[4]
    assert "AAPL/volume: above 5000000" in newest[4]
    asked = known("undo", says="n\n")
    assert REF in asked.stderr


# ── where it works ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_works_through_the_service_as_well(known: Cofio, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.load({"home": str(known.home), "port": 0}, environ={})
    opened: list[Keeper] = []
    with hashing_keeper(settings) as keeper, served(keeper, settings) as url:
        opened.append(keeper)
        env = {"COFIO_URL": url}

        def refuse(*_: Any) -> Keeper:
            raise AssertionError("the store was opened beside the service")

        monkeypatch.setattr("tests.cli.conftest.hashing_keeper", refuse)
        assert known.json("knowledge", "list", env=env)["thresholds"] == 1
        assert rows(known.lines("knowledge", "check", "AAPL", "volume", "6M", env=env))[0][0] == REF
        known.lines("knowledge", "feedback", "a1", "confirmed", "--about", REF, env=env)
        assert known.json("knowledge", "show", REF, env=env)["confirmed"] == 1
        assert known("knowledge", "show", "thresholds/none", env=env).exit_code == 1


def completed(known: Cofio, *words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COFIO_HOME", str(known.home))
    session = CliContext(open_keeper=hashing_keeper)
    shell = ShellComplete(cli, {"obj": session}, "cofio", "_COFIO_COMPLETE")
    return [get_completion.value for get_completion in shell.get_completions(["knowledge", *words[:-1]], words[-1])]


def test_a_shell_completes_tables_and_rows(known: Cofio, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed(known, "list", "th", monkeypatch=monkeypatch) == ["thresholds"]
    assert completed(known, "show", "s", monkeypatch=monkeypatch) == ["seasonal/"]
    assert completed(known, "show", "thresholds/", monkeypatch=monkeypatch) == [REF]
    assert completed(known, "feedback", "a1", "confirmed", "--about", "thresholds/a", monkeypatch=monkeypatch) == [REF]
    assert completed(known, "show", "hunches/", monkeypatch=monkeypatch) == []
