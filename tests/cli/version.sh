#!/bin/sh
# version.sh: the version is written in include/rankscope.h alone, and the program, its manual page and what it writes say that one.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"

version=$(sed -n 's/^#define RS_VERSION "\([0-9]*\.[0-9]*\.[0-9]*\)"$/\1/p' "$RS_SOURCE_DIR/include/rankscope.h")
[ -n "$version" ] || note_failure "include/rankscope.h does not define RS_VERSION as \"N.N.N\""

expect 0 "$RANKSCOPE" --version
says out "rankscope $version"
expect 0 "$RANKSCOPE" --man
says out "\"rankscope $version\""
expect 0 "$RANKSCOPE" scan "$RS_SOURCE_DIR/tests/golden/families/llama" --quiet --json -
says out "{\"rankscope\":\"$version\""

# No other file that a build reads names it: a number of our own that stands twice will differ one day.
for file in CMakeLists.txt CMakePresets.json cmake/install.cmake cmake/rankscope.pc.in web/package.json; do
    ! grep -qE "(VERSION|[Vv]ersion:?)\"?:? *\"?$version" "$RS_SOURCE_DIR/$file" || note_failure "$file names the version $version itself"
done
! sed -n 1,12p "$RS_SOURCE_DIR/web/package-lock.json" | grep -q '"version":' || note_failure "web/package-lock.json gives the page a version"
finish
