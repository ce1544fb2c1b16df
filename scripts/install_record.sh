#!/bin/sh
# install_record.sh: writes down what 'make install' has just installed, so that 'make uninstall' can tell its own files from others: for each
# file a line with its checksum and size ("-> TARGET" for a link) and a line with its path, DESTDIR left out.
# install_record.sh --sum FILE prints the first of the two.
set -eu

sum() {
    if [ -h "$1" ]; then
        printf -- '-> %s\n' "$(readlink "$1")"
    elif [ -f "$1" ]; then
        cksum <"$1"
    else
        echo "no file"
    fi
}

if [ "${1:-}" = --sum ]; then
    sum "$2"
    exit 0
fi
cd "$(dirname "$0")/.."
# CMake's list does not end its last line.
while IFS= read -r file || [ -n "$file" ]; do
    sum "${DESTDIR:-}$file"
    printf '%s\n' "$file"
done <build/install_manifest.txt >build/install_record.new
mv build/install_record.new build/install_record.txt
