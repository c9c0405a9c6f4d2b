"""Pure functions over text: tokens, sentences, duplicates, code tokens, lazily compiled expressions."""
