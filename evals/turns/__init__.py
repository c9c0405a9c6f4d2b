"""Hand-labelled turns of coding sessions (`turns.jsonl`), and the labelling guide (`GUIDE.md`)."""
