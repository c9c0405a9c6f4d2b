"""Expressions that are compiled late do what compiled ones do, and every one of ours can be compiled."""

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

MADE = "sum('_made' in vars(each) for each in lazy_re._all)"
WORD = lazy_re.compile(r"(?P<word>[a-z]+)", re.IGNORECASE)


def test_it_is_used_as_one_that_was_compiled() -> None:
    found = WORD.search("1 Two")
    assert found is not None
    assert found["word"] == "Two"
    assert WORD.sub("x", "a b") == "x x"
    assert [match[0] for match in WORD.finditer("a b")] == ["a", "b"]
    assert (WORD.pattern, WORD.flags, WORD.groups) == (r"(?P<word>[a-z]+)", re.compile("", re.IGNORECASE).flags, 1)
    assert copy.deepcopy({"word": WORD})["word"].fullmatch("Two")


def test_what_was_used_once_is_the_real_method() -> None:
    once = lazy_re.compile("a+")
    assert "match" not in vars(once)
    assert once.match("aa")
    assert vars(once)["match"]("aa")


def test_an_error_in_it_is_told_by_the_first_use() -> None:
    broken = lazy_re.compile("(")
    with pytest.raises(re.error):
        broken.search("x")


def test_what_it_does_not_have_is_an_error() -> None:
    with pytest.raises(AttributeError):
        WORD.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_several_may_be_the_first() -> None:
    shared, found = lazy_re.compile("a|b|c"), []
    threads = [threading.Thread(target=lambda: found.append(bool(shared.fullmatch("b")))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 8


def test_every_one_of_ours_can_be_compiled() -> None:
    modules = [
        walk_package.name
        for walk_package in pkgutil.walk_packages(cofio.__path__, "cofio.")
        if "__main__" not in walk_package.name
    ]
    assert len(modules) > 200
    count, made = counted(f"len(lazy_re._all), lazy_re.compile_all() or {MADE}", *modules)
    assert made == count > 300


def test_a_command_that_reads_nothing_compiles_hardly_any() -> None:
    count, made = counted(f"len(lazy_re._all), {MADE}")
    assert count > 300
    assert made < 5


def counted(what: str, *modules: str) -> list[int]:
    """The numbers that a process of its own tells, which has imported these, or all that a command does."""
    script = f"import {', '.join(modules or ['cofio.bootstrap'])}; from cofio.text import lazy_re; print({what})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return [int(each) for each in done.stdout.split()]
