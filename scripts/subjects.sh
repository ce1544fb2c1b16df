#!/bin/sh
# subjects.sh: checks that the first line of a commit's message has at most 72 characters, from the day on which that became the rule. Nothing is
# checked where there is no history (an export, a clone of nothing but the files).
set -eu
cd "$(dirname "$0")/.."
since=2026-11-22T13:00:00Z
[ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ] || exit 0
git log --no-merges --since="$since" --format='%h %s' | LC_ALL=C awk '
    {
        subject = substr($0, index($0, " ") + 1)
        gsub(/[\200-\277]/, "", subject) # the rest of a character of several bytes
        if (length(subject) <= 72) next
        print $1 ": the subject has " length(subject) " characters; at most 72 are read in full: " subject
        wrong = 1
    }
    END { exit wrong }'
