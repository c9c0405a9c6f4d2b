"""What a language model is told. The prompts are Markdown files beside this one, reviewed as prose.

Every step may read them; they know nothing of ours.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


def read(name: str, **values: str) -> str:
    """The prompt of this name with `{field}` replaced by the value of that name. Other braces stay as they are."""
    fields = re.compile(r"\{(" + "|".join(values) + r")\}") if values else None
    text = _file(name)
    return fields.sub(lambda found: values[found[1]], text) if fields else text


@cache
def _file(name: str) -> str:
    return (files("cofio.prompts") / f"{name}.md").read_text(encoding="utf-8").strip()
