"""Labels of the judgement model, in the order of its outputs."""

from __future__ import annotations

#: Effects of a statement on a stored memory.
RELATIONS = ("add", "same", "update", "delete")
#: Kinds of a fact. A retraction ends a fact without replacing it.
KINDS = ("preference", "policy", "technology", "decision", "temporal", "threshold", "observation", "retraction")
#: Facts about the person hold in every project.
ABOUT = ("person", "project")
#: Tags of a word: outside of a fact, its first word, a further word.
TAGS = ("outside", "first", "inside")
RETRACTION = "retraction"
