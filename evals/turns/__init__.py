"""Turns of coding sessions, labelled by hand: `turns.jsonl`, and how they are labelled: `GUIDE.md`."""
