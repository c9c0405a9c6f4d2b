"""Reports as text, JSON, Markdown page and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cofio.version import __version__
from cofio_eval.metrics import Figure
from cofio_eval.report import Cell, Column, Report, Table

MACHINE = {"cpu": "Abacus", "cores": 2, "memory_gb": 1, "system": "Linux", "python": "3.11", "load": 0.1}


@pytest.fixture
def report() -> Report:
    columns = [Column("search"), Column("R@10", "%"), Column("to the default", "±%"), Column("p50", "ms")]
    rows: list[list[Cell]] = [
        ["default", Figure(0.831, 0.79, 0.865), None, 12.34],
        ["words|alone", 0.762, Figure(-0.071, -0.099, -0.045), None],
    ]
    return Report(
        name="made-up",
        title="Made up",
        command="cofio eval made-up FILE",
        intro=["Nothing was measured."],
        values={"r@10": 0.831},
        tables=[Table("Found", columns, rows, "A note.")],
        plots={"made-up-plot": "<svg/>"},
        closing=["The end."],
        measured_on=MACHINE,
    )


@pytest.mark.parametrize(
    ("column", "cell", "expected"),
    [
        (Column("share", "%"), 0.5, "50.0"),
        (Column("share", "%"), 1, "100.0"),
        (Column("share", "%"), Figure(0.5, 0.25, 0.754), "50.0 [25.0, 75.4]"),
        (Column("change", "±%"), 0.02, "+2.0"),
        (Column("change", "±%"), Figure(-0.02, -0.04, 0.01), "-2.0 [-4.0, +1.0]"),
        (Column("time", "ms", 2), 1234.567, "1,234.57"),
        (Column("number"), 12_345, "12,345"),
        (Column("number"), 0.5, "0.5"),
        (Column("name"), "words", "words"),
        (Column("nothing", "ms"), None, "–"),
    ],
)
def test_cell_is_formatted_by_its_column(column: Column, cell: Cell, expected: str) -> None:
    assert column.format_cell(cell) == expected


def test_heading_includes_the_unit() -> None:
    assert [Column("R@10", "%").heading, Column("gain", "±%").heading, Column("n").heading] == [
        "R@10, %",
        "gain, %",
        "n",
    ]


def test_text_has_aligned_columns(report: Report) -> None:
    lines = report.text().splitlines()
    assert lines[0] == "Made up"
    assert "Nothing was measured." in lines
    start = lines.index("Found")
    assert lines[start + 1 : start + 5] == [
        "search                 R@10, %  to the default, %  p50, ms",
        "default      83.1 [79.0, 86.5]                  –     12.3",
        "words|alone               76.2  -7.1 [-9.9, -4.5]        –",
        "A note.",
    ]
    assert lines[-1] == f"cofio {__version__} on Abacus, 2 cores, 1 GB, Linux, Python 3.11, load 0.1"


def test_page_is_markdown_with_tables_plots_and_command(report: Report) -> None:
    page = report.page()
    assert page.startswith("# Made up\n\nMade by `cofio eval made-up FILE` with cofio")
    assert "| search | R@10, % | to the default, % | p50, ms |\n|---|---:|---:|---:|\n" in page
    assert "| default | 83.1 [79.0, 86.5] | – | 12.3 |" in page
    assert "| words\\|alone | 76.2 |" in page  # a bar in a cell is escaped
    assert "![made up plot](made-up-plot.svg)" in page
    assert page.rstrip().endswith("[made-up.json](made-up.json).")
    assert page.index("A note.") < page.index("The end.")


def test_json_starts_with_the_figures_and_includes_the_machine(report: Report) -> None:
    data = report.as_dict()
    assert next(iter(data)) == "r@10"
    assert data["machine"] == MACHINE
    assert (data["measure"], data["version"], data["command"]) == ("made-up", __version__, "cofio eval made-up FILE")


def test_files_are_written_into_a_new_folder(report: Report, tmp_path: Path) -> None:
    folder = tmp_path / "some" / "results"
    written = report.write(folder)
    assert sorted(path.name for path in written) == ["made-up-plot.svg", "made-up.json", "made-up.md"]
    assert json.loads((folder / "made-up.json").read_text(encoding="utf-8")) == report.as_dict()
    assert (folder / "made-up.md").read_text(encoding="utf-8") == report.page()
    assert (folder / "made-up-plot.svg").read_text(encoding="utf-8") == "<svg/>"


def test_machine_is_detected_by_default() -> None:
    machine = Report("a", "A", "a", [], {}, []).as_dict()["machine"]
    assert machine["cores"] >= 1
    assert {"cpu", "memory_gb", "system", "python", "sqlite", "numpy", "load"} <= machine.keys()
