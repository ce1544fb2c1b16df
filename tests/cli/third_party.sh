#!/bin/sh
# third_party.sh: docs/third-party.md names every library that the program loads, and just the packages that its HTML page bundles.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
page=$RS_SOURCE_DIR/docs/third-party.md

# libpcre2-8.so.0 => /lib/libpcre2-8.so.0 (0x...) is `libpcre2-8`. What a sanitizer or the linker adds is no part of the program.
if command -v ldd >/dev/null 2>&1; then
    ldd "$RANKSCOPE" | sed -n 's/^[[:space:]]*\(lib[^ ]*\)\.so.*/\1/p' | grep -vE '^lib(asan|ubsan|tsan|lsan|clang_rt.*)$' | sort -u >libraries
    [ -s libraries ] || [ "$(uname -s)" != Linux ] || note_failure "ldd names no library"
    while read -r library; do
        grep -qF "\`$library\`" "$page" || note_failure "docs/third-party.md does not name $library, which the program loads"
    done <libraries
fi

# In the report each licence stands under a line "NAME VERSION, NAME VERSION".
expect 0 "$RANKSCOPE" scan "$RS_SOURCE_DIR/tests/golden/families/llama" --quiet --html report.html
sed -n '/id="licences">/,/<\/script>/p' report.html | sed 's/.*id="licences">//' |
    grep -E '^(@[^ ]+/)?[a-z0-9.-]+ [0-9]+\.[0-9]+\.[0-9]+(, |$)' | tr ',' '\n' | sed 's/^ *//; s/ .*//' | sort >bundled
# shellcheck disable=SC2016 # backquotes of Markdown
sed -n '/^## In the page/,$p' "$page" | grep -oE '`[^`]+`' | tr -d '`' | grep -vF web/package-lock.json | sort >named
[ -s bundled ] || note_failure "the report names no package that it bundles"
diff named bundled >differences || { note_failure "docs/third-party.md (<) and the page (>) name different packages:"; cat differences; }
finish
