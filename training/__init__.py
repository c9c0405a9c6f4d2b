"""Training of the judgement model from the labelled text in `evals/data`; see README.md."""
