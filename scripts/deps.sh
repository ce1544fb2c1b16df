#!/bin/sh
# deps.sh [--check] GROUP...: installs what the named groups of packages lack, and nothing else.
#   Debian and Ubuntu: apt, as root or through sudo. macOS: prints the Homebrew line. Others: names the missing tools.
#   --check only reports: exit 0 when nothing is missing, else the exact install command and exit 1.
set -eu

# GROUP PROBE DEBIAN-PACKAGE HOMEBREW-FORMULA: PROBE names commands (any of them will do, whoever installed them);
# '-' asks the package manager itself. A formula '-' means that the system or another formula already has it.
table() {
    cat <<'END'
build cc build-essential -
build cmake cmake cmake
build ninja ninja-build ninja
build pkg-config pkg-config pkgconf
build - libopenblas-openmp-dev openblas
build - liblapacke-dev libomp
build - libjansson-dev jansson
build - libpcre2-dev pcre2
build - libutf8proc-dev utf8proc
build - libsqlite3-dev sqlite
build - librandom123-dev -
build - libflint-arb-dev flint
build - libcairo2-dev cairo
build node|nodejs nodejs node
build npm npm -
demo python3 python3 python
demo pip3 python3-pip -
demo - ca-certificates -
test - libcmocka-dev cmocka
browser chromium|chromium-browser|google-chrome chromium -
browser pdftoppm poppler-utils poppler
lint clang-format clang-format clang-format
lint shellcheck shellcheck shellcheck
clang clang clang llvm
clang - libclang-rt-dev -
clang - libomp-dev -
valgrind valgrind valgrind -
coverage gcovr gcovr gcovr
oracle - python3-venv -
END
}

has_command() {
    for name in $(printf '%s' "$1" | tr '|' ' '); do
        command -v "$name" >/dev/null 2>&1 && return 0
    done
    return 1
}

has_package() {
    case $system in
    apt) [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ] ;;
    brew) brew list --formula "$1" >/dev/null 2>&1 ;;
    *) return 0 ;; # unknown system: CMake says which library it does not find
    esac
}

# Clang's run-time library carries clang's major version in its Debian name.
debian_name() {
    case $1 in
    libclang-rt-dev)
        version=$(apt-cache policy clang | sed -n 's/.*Candidate: *[0-9]*:\([0-9]*\).*/\1/p')
        echo "libclang-rt-${version:-14}-dev" ;;
    *) echo "$1" ;;
    esac
}

# Prints the packages of group $1 that are missing.
missing_of() {
    table | while read -r group probe debian formula; do
        [ "$group" = "$1" ] || continue
        case $system in
        brew) package=$formula ;;
        *) package=$debian ;;
        esac
        [ "$package" != - ] || continue
        if [ "$probe" != - ]; then
            has_command "$probe" || echo "$package"
        else
            [ "$system" != apt ] || package=$(debian_name "$package")
            has_package "$package" || echo "$package"
        fi
    done
}

if [ "$(uname -s)" = Darwin ]; then
    system=brew
    command -v brew >/dev/null 2>&1 || { echo "rankscope: on macOS this needs Homebrew" >&2; exit 1; }
elif command -v apt-get >/dev/null 2>&1 && command -v dpkg-query >/dev/null 2>&1; then
    system=apt
else
    system=other
fi

check=no
[ "${1:-}" != --check ] || { check=yes; shift; }
missing=$(for group in "$@"; do missing_of "$group"; done | sort -u | tr '\n' ' ')
missing=${missing% }
[ -n "$missing" ] || exit 0

case $system in
apt) line="apt-get install -y --no-install-recommends $missing"
     [ "$(id -u)" = 0 ] || line="sudo $line" ;;
brew) line="brew install $missing" ;;
*) line="(with this system's package manager; Debian's names are given)" ;;
esac

if [ $check = yes ]; then
    printf 'rankscope: missing: %s\n  install with: %s\n  or: make deps\n' "$missing" "$line" >&2
    exit 1
fi

as_root=
if [ $system = apt ] && [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        as_root=sudo
    else
        system=other
    fi
fi
if [ $system != apt ]; then
    printf 'rankscope: missing: %s\n  install with: %s\n' "$missing" "$line" >&2
    exit 1
fi

echo "rankscope: installing $missing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    # shellcheck disable=SC2086 # as_root is one word or none
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=3 "$@" >>"$log" 2>&1 </dev/null
}
install_all() {
    # shellcheck disable=SC2086 # a list of package names
    apt update && apt install -y --no-install-recommends $missing
}
install_all || { sleep 5; install_all; } || {
    tail -n 15 "$log" >&2
    printf 'rankscope: the packages could not be installed; the command was\n  %s\n' "$line" >&2
    exit 1
}
