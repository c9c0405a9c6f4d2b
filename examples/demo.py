"""Ten-second demo of cofio: facts from one session are available in the next, and stay up to date.

python examples/demo.py
"""

from __future__ import annotations

import sys
import tempfile
import time

import cofio

BOLD, DIM, OFF = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")

MONDAY = [
    "We deploy to Fly.io in Frankfurt, never on a Friday",
    "Ada prefers tabs and functions under thirty lines",
    "The billing service listens on port 8080",
    "We use Prisma as the ORM",
    "Flaky tests in checkout came from a clock that was not frozen",
]
QUESTIONS = [
    "can I ship this on friday afternoon?",
    "how should I indent this file?",
    "why were the checkout tests unreliable?",
    "which library do we use to talk to the database?",
]


def say(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def heading(text: str) -> None:
    say(f"\n{BOLD}{text}{OFF}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, cofio.open(f"sqlite://{folder}/demo.db") as keeper:
        heading("Monday. A session ends; five facts are kept.")
        for change in keeper.add_all([cofio.Fact(text=text, source="demo/shop", session="monday") for text in MONDAY]):
            say(f"  + {change.memory.text}")

        heading("Tuesday. A new session knows nothing, and asks.")
        for question in QUESTIONS:
            started = time.perf_counter()
            (hit,) = keeper.search(question, k=1)
            spent = 1000 * (time.perf_counter() - started)
            say(f"  ? {question}\n    {hit.text}  {DIM}{hit.score:.2f}, {hit.match_type}, {spent:.0f} ms{OFF}")

        heading("Said again: noticed, not stored twice.")
        again = keeper.add("we use Prisma as ORM", source="demo/shop", session="tuesday")
        say(f"  = {again.action}: {again.memory.text}  {DIM}seen {again.memory.occurrences} times{OFF}")
        other = keeper.add("The billing service listens on port 9090", source="demo/shop")
        say(f"  + {other.action}: {other.memory.text}  {DIM}another number is another fact{OFF}")

        heading("Changed: the new fact takes the old one's place, and history remembers.")
        old = keeper.search("which ORM", k=1)[0].memory
        new, _ = keeper.supersede(old.id, "We use Drizzle as the ORM, after leaving Prisma")
        say(f"  ? which ORM do we use?\n    {keeper.search('which ORM do we use?', k=1)[0].text}")
        for change in keeper.history(new.memory_id):
            say(f"    {DIM}#{change.changeset} {change.action:7} {change.memory.text}{OFF}")

        heading("A mistake? Undo it.")
        keeper.undo(new.changeset)
        say(f"  ? which ORM do we use?\n    {keeper.search('which ORM do we use?', k=1)[0].text}")
    say()


if __name__ == "__main__":
    main()
