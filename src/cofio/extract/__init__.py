"""Facts out of what was said: `patterns` reads what is worded as facts are, a model reads the rest."""
