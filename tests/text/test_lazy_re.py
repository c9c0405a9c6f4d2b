"""Lazily compiled regular expressions behave like compiled ones, and every one in the package compiles."""

from __future__ import annotations

import copy
import pkgutil
import re
import subprocess
import sys
import threading

import pytest

import cofio
from cofio.text import lazy_re

COMPILED_COUNT = "sum('_made' in vars(each) for each in lazy_re._all)"
WORD = lazy_re.compile(r"(?P<word>[a-z]+)", re.IGNORECASE)


def test_lazy_pattern_behaves_like_a_compiled_one() -> None:
    result = WORD.search("1 Two")
    assert result is not None
    assert result["word"] == "Two"
    assert WORD.sub("x", "a b") == "x x"
    assert [match[0] for match in WORD.finditer("a b")] == ["a", "b"]
    assert (WORD.pattern, WORD.flags, WORD.groups) == (r"(?P<word>[a-z]+)", re.compile("", re.IGNORECASE).flags, 1)
    assert copy.deepcopy({"word": WORD})["word"].fullmatch("Two")


def test_method_is_cached_after_first_use() -> None:
    pattern = lazy_re.compile("a+")
    assert "match" not in vars(pattern)
    assert pattern.match("aa")
    assert vars(pattern)["match"]("aa")


def test_invalid_pattern_raises_on_first_use() -> None:
    pattern = lazy_re.compile("(")
    with pytest.raises(re.error):
        pattern.search("x")


def test_unknown_attribute_raises() -> None:
    with pytest.raises(AttributeError):
        WORD.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_first_use_is_thread_safe() -> None:
    shared, results = lazy_re.compile("a|b|c"), []
    threads = [threading.Thread(target=lambda: results.append(bool(shared.fullmatch("b")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 8


def test_every_pattern_of_the_package_compiles() -> None:
    modules = [
        walk_package.name
        for walk_package in pkgutil.walk_packages(cofio.__path__, "cofio.")
        if "__main__" not in walk_package.name
    ]
    assert len(modules) > 200
    count, compiled = counts_in_subprocess(f"len(lazy_re._all), lazy_re.compile_all() or {COMPILED_COUNT}", *modules)
    assert compiled == count > 300


def test_command_compiles_only_the_patterns_it_uses() -> None:
    count, compiled = counts_in_subprocess(f"len(lazy_re._all), {COMPILED_COUNT}")
    assert count > 300
    assert compiled < 5


def counts_in_subprocess(expressions: str, *modules: str) -> list[int]:
    """Return the numbers printed by a new process that imports `modules`, or everything a command imports."""
    script = f"import {', '.join(modules or ['cofio.bootstrap'])}; from cofio.text import lazy_re; print({expressions})"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return [int(number) for number in process.stdout.split()]
