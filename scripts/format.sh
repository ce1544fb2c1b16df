#!/bin/sh
# format.sh [--check]: brings every C file into the shape of .clang-format, or only says which are not in it (exit 77: cannot tell here).
set -eu
cd "$(dirname "$0")/.."
# Versions of clang-format differ in details; the one that decides is Debian 12's.
decider=14
tool=
for name in clang-format-$decider clang-format; do
    if "$name" --version 2>/dev/null | grep -q "version $decider\."; then
        tool=$name
        break
    fi
done
if [ -z "$tool" ]; then
    echo "clang-format $decider is not here: the shape of the C files is not checked"
    exit 77
fi
if [ "${1:-}" = --check ]; then
    set -- --dry-run -Werror
else
    set -- -i
fi
find . -type d \( -name 'build*' -o -name '.?*' -o -name node_modules \) -prune -o \( -name '*.[ch]' -o -name '*.inc' \) -exec "$tool" "$@" {} +
