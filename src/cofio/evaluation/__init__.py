"""How well it remembers, measured on data: what `cofio eval`, `evals/` and `bench/` share.

    data ─ a keeper of its own ─▶ figures ─ bootstrap ─▶ Report ─▶ text, JSON, a page with plots

Each measure asks the keeper as any program would, and hands back a `report.Report`. Seeds are fixed, and
nothing is fetched.
"""
