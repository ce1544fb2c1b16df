#!/bin/sh
# arrows.sh: checks that an #include in src/ only ever points down the house (docs/design.md): from a room to itself or to one on a lower line.
set -eu
cd "$(dirname "$0")/.."

# One line a storey, from the top down; rooms that share a line do not include each other.
storeys='cli
api
lab
compare
predict paths probe certify train compress
observe
measures
engine
scan
network
products
recognise
proof
text
checkpoint
report
linalg
base'

grep -rn '^ *#include "' src --include='*.[ch]' --include='*.inc' | awk -v storeys="$storeys" '
    BEGIN {
        n = split(storeys, line, "\n")
        for (i = 1; i <= n; i++) {
            rooms = split(line[i], name, " ")
            for (j = 1; j <= rooms; j++) storey[name[j]] = i
        }
    }
    {
        split($0, at, ":")
        split(at[1], path, "/")
        from = path[2]
        file = $0
        sub(/^[^"]*"/, "", file)
        sub(/".*/, "", file)
        if (index(file, "/") == 0) next # the public header, or what the build makes
        to = file
        sub(/\/.*/, "", to)
        if (!(from in storey)) { print at[1] ": no storey is known for the room " from; wrong++; next }
        if (!(to in storey)) { print at[1] ":" at[2] ": no storey is known for the room " to; wrong++; next }
        if (from != to && storey[from] >= storey[to]) {
            print at[1] ":" at[2] ": " from " must not include " file
            wrong++
        }
    }
    END { exit wrong ? 1 : 0 }'
