"""The results: made by one command, listed from what is there, small, and without a word of the data."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scripts import results as made
from scripts.results import MEASURES, Headline, Measure

from tests.data import ROOT, development

FOLDER = ROOT / "docs" / "results"
MOST = 300_000  # bytes of JSON in all
DATA = ["retrieval/locomo-dev.jsonl", "pairs/sick-train.jsonl", "pairs/beam-updates-dev.jsonl"]
WORDS = 5  # that two texts have in common before they are compared whole
MACHINE = {"cpu": "Made-up 9", "cores": 2, "memory_gb": 8, "system": "Linux 6", "python": "3.11.7", "load": 0.1}
ABOUT = {"version": "0.1.0", "command": "python -m evals.found", "machine": MACHINE}
FOUND = Measure(
    "found",
    "Found",
    "how much is found",
    "evals.found",
    1,
    ("questions.jsonl",),
    (
        Headline(
            "R@10", "r@10", within="intervals/r@10", beside=(("words", "ways/name=words/r"), ("chance", "")), first=True
        ),
        Headline("p50", "p50_ms", "ms"),
    ),
)
TIMED = Measure("timed", "Timed", "how long it takes", "bench.timed", 1, (), (Headline("hook", "hook", "ms"),))
SIZES = [{"store": "a file", "n": 10, "ms": 1.0}, {"store": "a file", "n": 20, "ms": 2.0}]
PLAIN = {"r@10": 0.7512, "intervals": {"r@10": [0.71, 0.79]}, "ways": [{"name": "words", "r": 0.61}], "p50_ms": 4.25}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two measures, of which one was made."""
    monkeypatch.setattr(made, "MEASURES", (FOUND, TIMED))
    monkeypatch.setattr(made, "ROOT", tmp_path)
    for name in ("README.md", "docs/index.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"# Title\n\n{made.START}\nold\n{made.END}\n\nThe rest.\n", encoding="utf-8")
    wrote(tmp_path, "found", PLAIN)
    return tmp_path


def wrote(project: Path, name: str, plain: dict[str, Any]) -> None:
    folder = project / "docs" / "results"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({**plain, **ABOUT}), encoding="utf-8")


def told(project: Path) -> dict[str, str]:
    """What the three files say after the lists were made."""
    assert made.main(["--index"]) == 0
    names = ("README.md", "docs/index.md", "docs/results/index.md")
    return {name: (project / name).read_text(encoding="utf-8") for name in names}


# ── the lists ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_index_tells_figures_with_intervals_baselines_and_machine(project: Path) -> None:
    index = told(project)["docs/results/index.md"]
    assert "| [R@10](found.md) | 75.1 % [71.0, 79.0] | words 61.0 %; chance | 0.1.0, Made-up 9, 2 cores |" in index
    assert "| [p50](found.md) | 4.2 ms |  |" in index
    assert "- [Found](found.md): how much is found" in index
    assert "`python -m evals.found`; cofio 0.1.0, Made-up 9, 2 cores, 8 GB, Linux 6, Python 3.11.7, load 0.1" in index


def test_what_was_not_measured_is_named_and_not_linked(project: Path) -> None:
    every = told(project)
    assert "## Not measured here\n\n- Timed: how long it takes" in every["docs/results/index.md"]
    assert not any("timed.md" in text for text in every.values())
    wrote(project, "timed", {"hook": {"value": 31.5, "low": 30.0, "high": 33.0}})
    every = told(project)
    assert "Not measured here" not in every["docs/results/index.md"]
    assert "| [hook](timed.md) | 31.5 ms [30.0, 33.0] |" in every["docs/results/index.md"]
    assert "- [Timed](results/timed.md): how long it takes" in every["docs/index.md"]


def test_an_item_of_a_list_is_found_by_what_it_says() -> None:
    headline = Headline("p50", "points/store=a file&n=20/ms", "ms", beside=(("other", "points/store=other&n=20/ms"),))
    assert made.figure({"points": SIZES}, headline) == "2.0 ms"
    assert made.beside({"points": SIZES}, headline) == "other not measured"
    assert made.figure({}, headline) == "–"


def test_the_readme_has_what_comes_first_and_keeps_all_else(project: Path) -> None:
    readme = told(project)["README.md"]
    assert "[R@10](docs/results/found.md) | 75.1 % [71.0, 79.0]" in readme
    assert "p50" not in readme
    assert "old" not in readme
    assert readme.startswith("# Title\n\n<!-- results")
    assert readme.endswith("<!-- end of results -->\n\nThe rest.\n")


def test_the_same_files_make_the_same_lists(project: Path) -> None:
    assert told(project) == told(project)


def test_without_a_place_for_the_results_nothing_is_overwritten(project: Path) -> None:
    (project / "README.md").write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit, match="has no place for the results"):
        made.main(["--index"])
    assert (project / "README.md").read_text(encoding="utf-8") == "no marks"


@pytest.mark.parametrize("measure", MEASURES, ids=lambda each: each.name)
def test_every_headline_of_a_measure_that_was_made_leads_to_a_figure(measure: Measure) -> None:
    plain = made.read(FOLDER).get(measure.name)
    if plain is None:
        pytest.skip(f"docs/results/{measure.name}.json is not there.")
    assert measure.headlines
    for headline in measure.headlines:
        assert re.match(r"[\d.,+-]+", made.figure(plain, headline)), headline


def test_the_lists_are_those_of_the_json_that_is_there(tmp_path: Path) -> None:
    names = ("README.md", "docs/index.md", "docs/results/index.md")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for path in FOLDER.glob("*.json"):
        shutil.copy(path, tmp_path / "docs" / "results")
    made.indexed(tmp_path)
    for name in names:
        assert (tmp_path / name).read_text("utf-8") == (ROOT / name).read_text("utf-8"), f"{name}: run make results"


# ── the commands ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_command_is_there() -> None:
    for measure in MEASURES:
        path = (ROOT / "src" if measure.module == "cofio" else ROOT) / measure.module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), measure.module


def test_one_measure_that_fails_or_lacks_its_data_keeps_no_other_from_being_made(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = "import pathlib, sys; pathlib.Path(sys.argv[1], 'timed.json').write_text('{\"hook\": 1.0}')"
    ways = {"found": [sys.executable, "-c", "raise SystemExit(3)"]}
    ways["timed"] = [sys.executable, "-c", write, str(project / "docs" / "results")]
    monkeypatch.setattr(Measure, "command", lambda self, *_: ways[self.name])
    assert made.main([str(project)]) == 1
    assert "there is no" in capsys.readouterr().out
    (project / "questions.jsonl").touch()
    assert made.main([str(project)]) == 1
    said = capsys.readouterr().out
    assert "found: failed with 3" in said
    assert "timed: made" in said
    assert "Not made: found." in said
    assert "| [hook](timed.md) | 1.0 ms |" in (project / "docs/results/index.md").read_text(encoding="utf-8")


def test_only_what_was_asked_for_is_made(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(made, "made", lambda measure, _data: ran.append(measure.name) or True)
    made.main(["--only", "timed"])
    made.main(["--skip", "timed"])
    assert ran == ["timed", "found"]


def test_a_measure_that_takes_too_long_is_stopped_with_all_that_it_started() -> None:
    script = "import subprocess, sys; print(1, flush=True); subprocess.run([sys.executable, '-c', 'input()'])"
    assert made.run([sys.executable, "-c", script], 0.01) is None


# ── what is kept ──────────────────────────────────────────────────────────────────────────────────────────────────────


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]


def test_the_results_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.glob("*.json")) < MOST


def test_data_would_not_be_committed() -> None:
    for name in DATA:
        ignored = subprocess.run(["git", "check-ignore", "-q", f"data/{name}"], cwd=ROOT, check=False)
        assert ignored.returncode in (0, 128), name  # 128: not a git checkout


@pytest.mark.parametrize("name", DATA)
def test_no_text_of_the_development_data_is_in_the_project(name: str) -> None:
    texts = said(development(name))
    assert texts
    assert quoted(texts, f"it says “{next(iter(texts.values()))}” there")  # the test can fail
    for path in tracked():
        found = quoted(texts, path.read_text(encoding="utf-8", errors="ignore"))
        assert not found, f"{path.relative_to(ROOT)} quotes {name}: {found}"


def said(path: Path) -> dict[str, str]:
    """The texts of a file of data that are too long to be said by chance, by some words of each."""
    found: dict[str, str] = {}

    def look(value: Any) -> None:
        if isinstance(value, str) and len(value) >= 60 and len(words := value.split()) > WORDS:
            found[" ".join(words[1 : WORDS + 1])] = " ".join(words)
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            look(each)

    for line in path.read_text(encoding="utf-8").splitlines():
        look(json.loads(line))
    return found


def quoted(texts: dict[str, str], content: str) -> list[str]:
    """Which of the texts stand in the content, whatever stands around them."""
    words = content.split()
    held = {" ".join(words[place : place + WORDS]) for place in range(len(words) - WORDS + 1)}
    whole = " ".join(words)
    return [texts[some] for some in held & texts.keys() if texts[some] in whole]
