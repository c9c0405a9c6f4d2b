"""Putting cofio into the clients on this machine, taking it out again, and proving that it works.

    plan (per client) ─▶ edits of texts (jsonc, toml) ─▶ files, with a record ─▶ uninstall: the same bytes as before
                                                              └──────────────▶ doctor: what is there, and what is wrong

Other people's files are edited as text: every byte that is not ours stays.
"""
