#!/bin/sh
# uninstall.sh: removes the files that the last 'make install' wrote (with the same DESTDIR).
set -eu
cd "$(dirname "$0")/.."
[ -f build/install_manifest.txt ] || { echo "rankscope: nothing is installed from here" >&2; exit 1; }
while IFS= read -r file || [ -n "$file" ]; do
    rm -f "${DESTDIR:-}$file"
done <build/install_manifest.txt
rm -f build/install_manifest.txt
