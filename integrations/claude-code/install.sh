#!/bin/sh
# Set up automatic memory in Claude Code, or with --codex in Codex, by `cofio install`, whose options may follow.
#   ./install.sh                             asks what it needs to know
#   ./install.sh --yes --provider skip       asks nothing
#   ./install.sh --codex
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
if command -v cofio >/dev/null 2>&1; then
    cofio=cofio
elif [ -x "$here/../../.venv/bin/cofio" ]; then
    cofio=$here/../../.venv/bin/cofio
else
    echo "cofio is not installed here. Do one of these, and run this again:" >&2
    echo "  make setup                      in the checkout that this file is in" >&2
    echo "  pipx install PATH_OF_CHECKOUT   or: uv tool install PATH_OF_CHECKOUT" >&2
    exit 1
fi
for argument in "$@"; do
    if [ "$argument" = --codex ]; then
        exec "$cofio" install "$@"
    fi
done
exec "$cofio" install claude-code "$@"
