"""Installation of cofio into the clients on this machine, uninstallation, and diagnosis.

    plan (per client) ─▶ edits of texts (jsonc, toml) ─▶ files, with a record ─▶ uninstall: the same bytes as before
                                                              └──────────────▶ doctor: state and problems

Files of other programs are edited as text: every byte that is not cofio's stays.
"""
