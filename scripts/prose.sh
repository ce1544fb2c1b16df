#!/bin/sh
# prose.sh: checks that a line of prose in a Markdown page has at most 120 characters. Tables, code, and the targets of links are not counted.
set -eu
cd "$(dirname "$0")/.."

# shellcheck disable=SC2016 # $0 is awk's
find . -type d \( -name 'build*' -o -name .git -o -name .venv -o -name node_modules -o -path ./shared \) -prune -o -name '*.md' -type f \
    -print | LC_ALL=C sort | LC_ALL=C xargs awk '
    FNR == 1 { fenced = code = 0; blank = 1 }
    /^ *```/ { fenced = !fenced; next }
    fenced || /^ *\|/ { next }
    /^[ \t]*$/ { blank = 1; next }
    { code = /^    |^\t/ && (blank || code); blank = 0 }
    code && !/^ *([-*]|[0-9]+\.) / { next }
    {
        text = $0
        gsub(/\]\([^) ]*\)|https?:[^ )>]*/, "", text)
        gsub(/[\200-\277]/, "", text) # the rest of a character of several bytes
        if (length(text) <= 120) next
        print FILENAME ":" FNR ": " length(text) " characters; a line of prose has at most 120"
        wrong = 1
    }
    END { exit wrong }'
