"""`cofio ingest` and `cofio inbox`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cofio

TALK = (
    "User: Hi! I prefer tabs over spaces.\nAssistant: Noted.\nUser: We switched from npm to pnpm.\nAssistant: Done.\n"
)


def line(role: str, said: str, number: int, **more: object) -> str:
    return json.dumps(
        {
            "type": role,
            "uuid": f"u{number}",
            "sessionId": "s1",
            "timestamp": f"2026-03-01T10:00:0{number}Z",
            "message": {"role": role, "content": said, "id": f"m{number}"},
            **more,
        }
    )


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    lines = [
        line("user", "I prefer tabs over spaces.", 1),
        line("assistant", "Noted.", 2),
        line("user", "We switched from npm to pnpm.", 3),
        line("assistant", "Done.", 4),
        '{"type": "user", "uuid": "half',
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_text_is_learned_from(cofio: Cofio, tmp_path: Path) -> None:
    path = tmp_path / "talk.txt"
    path.write_text(TALK, encoding="utf-8")
    told = cofio.json("ingest", str(path), "--source", "shop")
    assert [each["action"] for each in told["actions"]] == ["add", "add"]
    listed = cofio.json("list", "--source", "shop")["memories"]
    assert sorted(each["text"] for each in listed) == [
        "Team switched from npm to pnpm",
        "User prefers tabs over spaces",
    ]


def test_the_standard_input_is_learned_from(cofio: Cofio) -> None:
    lines = cofio.lines("ingest", "-", says=TALK)
    assert [each.split("\t")[0] for each in lines] == ["add", "add"]


def test_a_dry_run_changes_nothing(cofio: Cofio) -> None:
    done = cofio("ingest", "-", "--dry-run", says=TALK)
    assert "Nothing was changed" in done.stderr
    assert cofio.json("list")["total"] == 0
    assert cofio.json("inbox")["captured"] == 0


PNPM = "We switched from npm to pnpm."


def test_observed_dialogue_is_learned_once_for_the_team(cofio: Cofio) -> None:
    said = ("ingest", "-", "--observed", "--intent", "How do we install?", "--session", "activity-7")
    assert cofio.json(*said, "--dry-run", says=PNPM)["actions"][0]["text"] == "Team switched from npm to pnpm"
    assert cofio.json("list")["total"] == 0
    told = cofio.json(*said, "--dialogue", "d1", "--team", "web", says=PNPM)
    assert [each["action"] for each in told["actions"]] == ["add"]
    [memory] = cofio.json("list")["memories"]
    assert (memory["visibility"], memory["session"], memory["team"]) == ("team", "activity-7", "web")
    assert "captured before" in cofio(*said, "--dialogue", "d1", says=PNPM).stderr
    assert cofio.lines("ingest", "-", "--observed", says="I prefer tabs over spaces.")[0].startswith("add")
    assert cofio("ingest", "-", "--intent", "why?", says=PNPM).exit_code == 2  # without --observed


REPORT = "Checked the fleet.\nThreshold: disk usage on web-1 above 85%\n"


@pytest.mark.parametrize(
    "delivered", [REPORT, json.dumps([{"role": "assistant", "content": REPORT}]), f"User: and?\nAssistant: {REPORT}"]
)
def test_an_agents_report_is_read_for_domain_knowledge(cofio: Cofio, delivered: str) -> None:
    lines = cofio.lines("ingest", "-", "--context", "analysis", says=delivered)
    assert lines[1] == "add\tthresholds/web-1.disk_usage.above\tweb-1/disk usage: above 85%"
    assert [each["id"] for each in cofio.json("knowledge", "list", "thresholds")["rows"]] == ["web-1.disk_usage.above"]


def test_what_is_no_report_is_not_read_for_domain_knowledge(cofio: Cofio) -> None:
    assert not any("thresholds/" in line for line in cofio.lines("ingest", "-", says=REPORT))
    assert cofio.json("knowledge", "list")["thresholds"] == 0


def test_a_transcript_is_learned_from_turn_by_turn_and_once(cofio: Cofio, transcript: Path) -> None:
    told = cofio.json("ingest", str(transcript))
    assert [each["turn"] for each in told["turns"]] == ["u1", "u3"]
    assert len(told["actions"]) == 2
    done = cofio("ingest", str(transcript))
    assert "2 turns captured before" in done.stderr
    assert done.stdout == ""
    assert cofio.json("inbox")["captured"] == 2


def test_a_file_that_says_nothing_or_is_not_there_is_an_error(cofio: Cofio, tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("", encoding="utf-8")
    for path in (empty, tmp_path / "nowhere.txt"):
        done = cofio("ingest", str(path))
        assert done.exit_code == 1
        assert "Error" in done.stderr


def test_a_capture_that_must_wait_is_told_with_the_reason(cofio: Cofio) -> None:
    env = {"EXTRACT_PROVIDER": "ollama", "OLLAMA_URL": "http://127.0.0.1:9"}
    done = cofio("ingest", "-", says="Our team decided to adopt microservices for scalability", env=env)
    assert done.exit_code == 0
    assert "not processed yet" in done.stderr
    assert cofio.json("inbox")["pending"] == 1


def test_inbox_shows_counts_and_reasons(cofio: Cofio) -> None:
    cofio("ingest", "-", says="Hi there!")
    lines = cofio.lines("inbox")
    assert "captured\t1" in lines
    assert "1\tNothing that will matter in a month" in lines
    told = cofio.json("inbox")
    assert told["balanced"] is True
    [item] = cofio.json("inbox", "--state", "rejected")["items"]
    assert item["reason"] == "Nothing that will matter in a month"
    assert cofio.lines("inbox", "--state", "rejected")[0].endswith("Hi there!\tNothing that will matter in a month")


def test_a_rejected_capture_can_be_tried_again(cofio: Cofio) -> None:
    cofio("ingest", "-", says="Hi there!")
    [again] = cofio.json("inbox", "--retry", "1")["items"]
    # At once: there is no service.
    assert (again["state"], again["reason"]) == ("rejected", "Nothing that will matter in a month")
    assert cofio("inbox", "--retry", "9").exit_code == 1
    cofio("ingest", "-", says="I prefer tabs over spaces.")
    assert cofio("inbox", "--retry", "2").exit_code == 1


def test_a_text_may_be_learned_from_in_another_project_too(cofio: Cofio) -> None:
    for source in ("shop", "blog", "blog"):
        cofio("ingest", "-", "--source", source, says="The port of staging is 8080.")
    assert cofio.json("inbox")["captured"] == 2
    assert {each["source"] for each in cofio.json("list")["memories"]} == {"shop", "blog"}


def test_what_is_learned_belongs_to_the_project_that_is_named(cofio: Cofio) -> None:
    for project in ("/srv/shop", "/srv/blog", "/srv/blog"):
        cofio("ingest", "-", "--project", project, says="The port of staging is 8080.")
    assert cofio.json("inbox")["captured"] == 2
    listed = cofio.json("list")["memories"]
    assert {(each["project"], each["source"]) for each in listed} == {("/srv/shop", ""), ("/srv/blog", "")}
