#!/bin/sh
# exports.sh LIBRARY HEADER VERSION: the shared library exports the functions of the header, no more and no fewer; on ELF under its
# soname and with a version. LIBRARY is librankscope.so or librankscope.dylib, VERSION the part of the file's name that programs remember.
set -eu
library=$1
header=$2
version=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

fail() {
    echo "exports: $1"
    exit 1
}

# What the compiler makes of the header, one statement a line: the names in front of a parenthesis, types left out.
cc -E -P -x c "$header" | tr -s ' \t\n' ' ' | tr ';' '\n' | grep -v '^ *typedef' |
    grep -Eo 'rs_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u >"$root/declared"
[ -s "$root/declared" ] || fail "$header declares nothing"

case $library in
*.dylib) nm -gU "$library" | awk '{ sub(/^_/, "", $3); print $3 }' | sort -u >"$root/exported" ;;
*)
    nm -D --defined-only "$library" >"$root/symbols"
    awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' "$root/symbols" | sort -u >"$root/exported"
    ! awk '$2 != "A" && $3 !~ /@@RANKSCOPE_'"$version"'$/' "$root/symbols" | grep . || fail "these names have no version"
    readelf -d "$library" | grep -q "SONAME.*\[librankscope\.so\.$version\]" || fail "the soname is not librankscope.so.$version"
    loaded=$(ldd "$library" | grep -E 'blas|lapack')
    [ "$(printf '%s\n' "$loaded" | wc -l)" = 1 ] || fail "it loads more than one BLAS: $loaded"
    ;;
esac
diff "$root/declared" "$root/exported" || fail "declared (<) and exported (>) differ"
echo "$(wc -l <"$root/exported") functions, all of them declared"
