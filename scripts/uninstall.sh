#!/bin/sh
# uninstall.sh: removes what the last 'make install' wrote (same PREFIX and DESTDIR): files that lie below PREFIX and are still as they were
# installed. Any other is left, and said.
set -eu
cd "$(dirname "$0")/.."
: "${PREFIX:=/usr/local}" "${DESTDIR:=}"
record=build/install_record.txt
[ -f "$record" ] || { echo "rankscope: nothing is installed from here" >&2; exit 1; }
root=$(cd -P "$DESTDIR$PREFIX" 2>/dev/null && pwd) || { echo "rankscope: $DESTDIR$PREFIX is not there" >&2; exit 1; }
kept=$record.kept
: >"$kept"
outside=0

# "SUM", or "-> TARGET" of a link, and the path: two lines a file, as install_record.sh wrote them.
while IFS= read -r sum && IFS= read -r file; do
    path=$DESTDIR$file
    [ -e "$path" ] || [ -h "$path" ] || continue
    folder=$(cd -P "$(dirname "$path")" && pwd)
    case $folder/ in
    "${root%/}"/*)
        if [ "$(scripts/install_record.sh --sum "$path")" = "$sum" ]; then
            rm -f -- "$path"
            case $folder in # a folder of our own name goes when it is empty
            */rankscope) rmdir -- "$folder" 2>/dev/null || : ;;
            */doc/rankscope/*) if rmdir -- "$folder" 2>/dev/null; then rmdir -- "${folder%/*}" 2>/dev/null || :; fi ;;
            esac
        else
            echo "rankscope: left $path: it is not what was installed" >&2
        fi
        ;;
    *)
        echo "rankscope: left $path: it does not lie below $root" >&2
        printf '%s\n%s\n' "$sum" "$file" >>"$kept"
        outside=1
        ;;
    esac
done <"$record"
if [ $outside = 1 ]; then
    mv "$kept" "$record"
    echo "rankscope: name the PREFIX (and DESTDIR) of 'make install'" >&2
    exit 1
fi
rm -f "$kept" "$record" build/install_manifest.txt
