"""Quality measurements on data, shared by `cofio eval`, `evals/` and `bench/`.

    data ─ a keeper of its own ─▶ figures ─ bootstrap ─▶ Report ─▶ text, JSON, a page with plots

Each measure uses the keeper as any program would, and returns a `report.Report`. Seeds are fixed, and nothing is
downloaded.
"""
