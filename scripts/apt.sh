# Installation of Debian packages, for scripts that source this file. Nothing is installed without saying so first.
#
#   COFIO_APT=yes  install without asking      COFIO_APT=no  never install      unset: ask on a terminal, else install

say() { printf '%s\n' "$*" >&2; }

# Install packages. $1 says what for; the rest are packages, of which the first that can be installed is enough. Return 1 if none is.
apt_install() {
    purpose=$1
    shift
    command -v apt-get >/dev/null 2>&1 || return 1
    say "Missing: $1, for $purpose."
    if [ "$(id -u)" != 0 ] || [ "${COFIO_APT:-}" = no ]; then
        say "Install it with: sudo apt-get install $1"
        return 1
    fi
    if [ "${COFIO_APT:-}" != yes ] && [ -t 0 ] && [ -t 2 ]; then
        printf 'Run "apt-get update" and "apt-get install %s" as root? [y/N] ' "$1" >&2
        read -r answer || answer=
        case $answer in [yY]*) ;; *) return 1 ;; esac
    fi
    say "Running apt-get update and apt-get install $1 (COFIO_APT=no prevents this) ..."
    apt-get update -qq >/dev/null || true
    for package in "$@"; do
        # shellcheck disable=SC2086 # a name may be several packages
        apt-get install -y -qq --no-install-recommends $package >/dev/null && return
    done
    say "apt-get cannot install it."
    return 1
}
