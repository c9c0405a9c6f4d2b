"""Trained judgement without a language model: facts worth keeping, relations to memories, relevance.

One small encoder with three heads (`model.py`), trained by `training/` on the labelled text in `evals/data`:

    turn ─ tag ─▶ spans worth keeping        memory, statement ─ relate ─▶ add / same / update / delete
                                             memory, prompt ─ score ─▶ probability that the memory helps
"""
