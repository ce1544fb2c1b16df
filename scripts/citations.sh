#!/bin/sh
# citations.sh: checks that every file that a comment or a page names, and every page that a text of the program names, is in the repository, with
# its folder or without ("docs/scan.md", "base/memory.h", "lambda*.c"), that links between pages lead somewhere, and that a page has the section
# cited ("docs/certificates.md, C9").
set -eu
cd "$(dirname "$0")/.."

# Files that are not here and should not be: those of other projects.
elsewhere='Node.js cmocka.h gguf.h gguf.cpp ggml-quants.c llama.h plot.py'
export elsewhere

# Comments are searched, strings that name a page, and the whole of a page; what is generated is not. The list of all files comes first.
find . -type d \( -name 'build*' -o -name .git -o -name .venv -o -name node_modules \) -prune -o -type f -print | LC_ALL=C awk '
    function plain(text) { gsub(/[.+(){}|^$]/, "\\\\&", text); return text }

    # The part of a line that is comment, by language; `inside` lives from line to line.
    function comment(line,    out, at) {
        if (kind == "md") return line
        out = ""
        if (kind == "c") {
            while (line != "") {
                if (inside) {
                    at = index(line, "*/")
                    if (!at) return out line
                    out = out substr(line, 1, at - 1) " "
                    line = substr(line, at + 2)
                    inside = 0
                } else if (match(line, /"([^"\\]|\\.)*"|\/\*|\/\//)) {
                    at = substr(line, RSTART, 2)
                    if (at == "//") return out substr(line, RSTART + 2)
                    inside = at == "/*"
                    if (!inside && substr(line, RSTART, RLENGTH) ~ /["( ]docs\/[a-z_\/]*\.md/)
                        out = out substr(line, RSTART + 1, RLENGTH - 2) " "
                    line = substr(line, RSTART + RLENGTH)
                } else return out
            }
            return out
        }
        if (kind == "py") {
            at = gsub(/"""/, "\"\"\"", line)
            if (inside || at) {
                if (at % 2) inside = !inside
                return line
            }
        }
        return match(line, /(^|[ \t])#/) ? substr(line, RSTART) : ""
    }

    function complain(what) { print FILENAME ":" FNR ": " what; wrong++ }

    # Whether a file of that name is here: as written, from the folder of the page, or by the end of its path.
    function known(file,    pattern, name) {
        sub(/^(\.\/)+/, "", file)
        while (file ~ /^\.\.\//) sub(/^\.\.\//, "", file)
        if (file in here) return 1
        if (file !~ /[*]/) return 0
        if (!(file in glob)) {
            pattern = plain(file)
            gsub(/[*]/, "[^/]*", pattern)
            glob[file] = 0
            for (name in here) if (name ~ "^" pattern "$") { glob[file] = 1; break }
        }
        return glob[file]
    }

    # A link of a page, from its own folder.
    function link(target,    path, parts, n, i, kept) {
        sub(/#.*/, "", target)
        if (target == "" || target ~ /^[a-z]+:/) return
        path = FILENAME
        sub(/[^\/]*$/, "", path)
        n = split(path target, parts, "/")
        kept = 0
        for (i = 1; i <= n; i++) {
            if (parts[i] == "..") kept--
            else if (parts[i] != ".") stack[++kept] = parts[i]
        }
        path = stack[1]
        for (i = 2; i <= kept; i++) path = path "/" stack[i]
        if (!(path in full)) complain("the link leads to " path ", which is not there")
    }

    BEGIN {
        n = split(ENVIRON["elsewhere"], list, " ")
        for (i = 1; i <= n; i++) here[list[i]] = 1
        while ((getline path < "-") > 0) {
            sub(/^\.\//, "", path)
            full[path] = here[path] = 1
            if ((path ~ /\.([ch]|inc|py|sh|cmake|mjs|md)$/ || path ~ /(^|\/)(CMakeLists\.txt|Makefile|run)$/) &&
                path !~ /^(fuzz\/corpus|fuzz\/regressions|tests\/golden)\//) ARGV[ARGC++] = path
            while (sub(/^[^\/]*\//, "", path)) here[path] = 1
        }
    }

    FNR == 1 {
        kind = FILENAME
        sub(/.*\//, "", kind)
        sub(/.*\./, "", kind)
        if (kind ~ /^(c|h|inc|mjs)$/) kind = "c"
        else if (kind != "py" && kind != "md") kind = "sh"
        inside = 0
    }

    # What can be cited of a page: "## 3. Title", "### 5.1 Title", "## C9. Title", "**L12 (...", "12. **Title".
    kind == "md" {
        if (match($0, /^(#+ |\*\*|- \*\*)?([A-Z]?[0-9]+(\.[0-9]+)*)/)) {
            id = substr($0, RSTART, RLENGTH)
            sub(/^(#+ |\*\*|- \*\*)/, "", id)
            section[FILENAME, id] = 1
        }
        rest = $0
        while (match(rest, /\]\([^) ]*\)/)) {
            link(substr(rest, RSTART + 2, RLENGTH - 3))
            rest = substr(rest, RSTART + RLENGTH)
        }
    }

    {
        text = comment($0)
        gsub(/[a-z]+:\/\/[^ )>]*|#include.*/, "", text)
        while (match(text, /[A-Za-z0-9_*.\/-]+\.(md|c|h|inc|py|sh|cmake|mjs|js)/)) {
            file = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            if (text ~ /^[A-Za-z0-9_(\/]/ || file ~ /^[\/.*-]*\.[a-z]+$/) continue
            gsub(/NAME|TARGET/, "*", file)
            if (!known(file)) { complain(file " is not in the repository"); continue }
            if (file !~ /^docs\/.*\.md$/ || !match(text, /^, ([A-Z]?[0-9]+(\.[0-9]+)*)/)) continue
            cited[file SUBSEP substr(text, 3, RLENGTH - 2)] = FILENAME ":" FNR
        }
    }

    END {
        for (c in cited) {
            split(c, parts, SUBSEP)
            if (c in section) continue
            print cited[c] ": " parts[1] " has no section " parts[2]
            wrong++
        }
        exit wrong ? 1 : 0
    }'
