#!/bin/sh
# run.sh BUILD CMAKE: installs into a throw-away folder, runs what landed there, and builds another program with it.
set -eu
build=$1
cmake=$2
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
prefix=$root/a\ prefix

fail() {
    echo "install: $1"
    exit 1
}

# The manifest is the real install's, which 'make uninstall' reads: put it back after this trial.
manifest=$build/install_manifest.txt
[ ! -f "$manifest" ] || cp "$manifest" "$root/manifest"
"$cmake" --install "$build" --prefix "$prefix" >/dev/null
cp "$manifest" "$root/installed"
if [ -f "$root/manifest" ]; then cp "$root/manifest" "$manifest"; else rm -f "$manifest"; fi

"$prefix/bin/rankscope" --version | grep -q '^rankscope [0-9]' || fail "the installed program does not say its version"
ours=
if command -v ldd >/dev/null 2>&1 && ldd "$build/rankscope" | grep -q openblas; then
    ours=$(ldd "$build/rankscope" | awk '/openblas/ { print $3; exit }')
    theirs=$(ldd "$prefix/bin/rankscope" | awk '/openblas/ { print $3; exit }')
    [ "$ours" = "$theirs" ] || fail "the installed program loads another OpenBLAS ($theirs, not $ours)"
fi
[ -f "$prefix/share/doc/rankscope/third-party.md" ] || fail "the licences of others are not installed"
grep -qi '^\.TH "*rankscope"* "*1' "$prefix/share/man/man1/rankscope.1" || fail "rankscope.1 is no manual page"
bash -n "$prefix/share/bash-completion/completions/rankscope" || fail "the bash completion does not parse"
grep -q '^complete .*rankscope' "$prefix/share/bash-completion/completions/rankscope" || fail "the bash completion completes nothing"
grep -q '^#compdef rankscope' "$prefix/share/zsh/site-functions/_rankscope" || fail "the zsh completion has no #compdef line"
grep -q '^complete -c rankscope' "$prefix/share/fish/vendor_completions.d/rankscope.fish" || fail "the fish completion completes nothing"
grep -o 'docs/[a-z_/]*\.md' "$prefix/include/rankscope.h" | while read -r page; do
    [ -s "$prefix/share/doc/rankscope/${page#docs/}" ] || fail "the header cites $page, which is not installed"
done
[ -s "$prefix/share/doc/rankscope/theory/collapse.md" ] || fail "the pages of docs/theory are not installed"

# A user's program, by pkg-config alone.
cat >"$root/user.c" <<'END'
#include <rankscope.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc < 2) return puts(rs_version()) < 0;
    rs_guard_install();
    rs_error err;
    rs_result *result;
    rs_scan_settings settings;
    rs_scan_settings_init(&settings, sizeof settings);
    if (rs_scan_checkpoint(&result, argv[1], &settings, &err) != RS_OK) {
        printf("%s: %s: %s\n", rs_status_name(err.status), err.where, err.what);
        return rs_status_exit_code(err.status);
    }
    char *text, *csv;
    if (rs_result_text(&text, NULL, result, RS_FORM_JSON, &err) != RS_OK) return 1;
    if (rs_result_csv(&csv, NULL, result, "heads", &err) != RS_OK) return 1;
    printf("%s\n", text);
    rs_text_free(text);
    rs_text_free(csv);
    if (rs_result_csv(&csv, NULL, result, "hats", &err) != RS_E_NOT_FOUND) return 1;
    rs_result_free(result);

    rs_probe_settings probe;
    rs_probe_settings_init(&probe, sizeof probe);
    probe.run.random = 2;
    probe.run.seq_len = 4;
    probe.variants = "full,san";
    probe.precision = RS_PRECISION_RESIDUAL;
    if (rs_probe_checkpoint(&result, argv[1], &probe, &err) != RS_OK) return rs_status_exit_code(err.status);
    if (rs_result_csv(&csv, NULL, result, "tokens", &err) != RS_OK || !strstr(csv, "log10_residual_fro")) return 1;
    rs_text_free(csv);
    rs_result_free(result);

    rs_certify_settings certify;
    rs_certify_settings_init(&certify, sizeof certify);
    certify.run = probe.run;
    certify.rigorous = true;
    certify.variant = "mine=no-mlp,lambda:2";
    if (rs_certify_checkpoint(&result, argv[1], &certify, &err) != RS_OK) return rs_status_exit_code(err.status);
    if (rs_result_csv(&csv, NULL, result, "bounds", &err) != RS_OK || !strstr(csv, "certified_diameter")) return 1;
    FILE *bounds = fopen(argv[2], "w");
    if (!bounds || fputs(csv, bounds) < 0 || fclose(bounds) != 0) return 1;
    rs_text_free(csv);
    rs_result_free(result);
    certify.variant = "full,san";
    if (rs_certify_checkpoint(&result, argv[1], &certify, &err) != RS_E_BAD_OPTION || result) return 1;
    certify.variant = NULL;
    certify.kept = 1;
    if (rs_certify_checkpoint(&result, argv[1], &certify, &err) != RS_E_BAD_OPTION || result) return 1;

    rs_paths_settings paths;
    rs_paths_settings_init(&paths, sizeof paths);
    paths.run = probe.run;
    paths.paths = 3;
    paths.sources = true;
    if (rs_paths_checkpoint(&result, argv[1], &paths, &err) != RS_OK) return rs_status_exit_code(err.status);
    if (rs_result_csv(&csv, NULL, result, "sources", &err) != RS_OK) return 1;
    rs_text_free(csv);
    rs_result_free(result);
    return 0;
}
END
config=$(find "$prefix" -name rankscope.pc)
# Another machine reads it: no path of this one, only such as begin with its own prefix.
if sed 's/#.*//' "$config" | grep -nE '(^|[ =:,]|-[LI])/' ; then fail "rankscope.pc has a path of the machine that built it"; fi
for page in docs/tutorial.md docs/words.md docs/theory/claims.md; do
    [ -s "$prefix/share/doc/rankscope/${page#docs/}" ] || fail "$page is not installed"
done
# What is installed has a target of its own, which builds no test.
if [ -f "$build/build.ninja" ] && ninja -C "$build" -t commands installed | grep -E ' (../)?(tests|fuzz)/|-o (tests|fuzz)/'; then
    fail "'make install' builds tests"
fi
PKG_CONFIG_PATH=$(dirname "$config")
export PKG_CONFIG_PATH
libraries=$(dirname "$PKG_CONFIG_PATH")
model=$(dirname "$0")/../golden/families/llama
"$prefix/bin/rankscope" scan "$model" --quiet --json "$root/program.json"
"$prefix/bin/rankscope" certify "$model" --random 2 --seq-len 4 --rigorous --no-mlp --lambda 2 --quiet --csv "$root/certified"
heads() { sed -n '/"heads":\[/,/\]/p' "$1"; }

# The README's example is a program, and does what it says.
# shellcheck disable=SC2016 # backquotes of Markdown
sed -n '/^```c$/,/^```$/p' "$(dirname "$0")/../../README.md" | sed '1d;$d' >"$root/readme.c"
eval "cc -std=c17 -Wall -Wextra -Werror -o \"$root/readme\" \"$root/readme.c\" $(pkg-config --cflags --libs rankscope) -Wl,-rpath,\"$libraries\"" ||
    fail "the README's example cannot be built"
# The program takes a better kernel where OpenBLAS chose a slow one, and its last bits: so does the example here.
OPENBLAS_CORETYPE=$(sed -n 's/.*"core":"\([A-Za-z]*\)".*/\1/p' "$root/program.json" | head -1)
export OPENBLAS_CORETYPE
"$root/readme" "$model" "$root/readme.json" || fail "the README's example fails"
"$prefix/bin/rankscope" probe "$model" --random 4 --lambda mixer:0.5 --no-mlp --residual-centre lp --quiet --json "$root/probed.json"
tokens() { sed -n '/"tokens":\[/,/\]/p' "$1"; }
[ -n "$(tokens "$root/readme.json")" ] || fail "the README's example writes no table tokens"
[ "$(tokens "$root/readme.json")" = "$(tokens "$root/probed.json")" ] || fail "the README's example and the program differ"

# So is the example of a step of gradient descent, whose exit status says whether the loss fell.
example=$prefix/share/doc/rankscope/examples/sgd_step.c
eval "cc -std=c17 -Wall -Wextra -Werror -o \"$root/sgd_step\" \"$example\" $(pkg-config --cflags --libs rankscope) -Wl,-rpath,\"$libraries\"" ||
    fail "the example of gradients cannot be built"
"$root/sgd_step" || fail "the example of gradients does not lower its loss"

# compile FLAGS: pkg-config escapes the space of the prefix, as a shell reads it.
compile() {
    eval "cc -std=c17 -Wall -Wextra -Werror -o \"$root/user\" \"$root/user.c\" $1" || fail "no program can be built with $1"
}

# check_user LIBRARY: the program says what rankscope says, and loads one BLAS.
check_user() {
    [ "rankscope $("$root/user")" = "$("$prefix/bin/rankscope" --version | sed -n 1p)" ] ||
        fail "the $1 library and the program differ in version"
    [ "$(pkg-config --modversion rankscope)" = "$("$root/user")" ] || fail "rankscope.pc and the $1 library differ in version"
    "$root/user" "$model" "$root/bounds.csv" >"$root/library.json" ||
        fail "the $1 library cannot scan $model: $(cat "$root/library.json")"
    [ -n "$(heads "$root/library.json")" ] || fail "the $1 library's JSON has no table heads"
    [ "$(heads "$root/library.json")" = "$(heads "$root/program.json")" ] || fail "the $1 library and the program differ in table heads"
    cmp "$root/bounds.csv" "$root/certified/bounds.csv" || fail "the $1 library and the program differ in table bounds"
    code=0
    "$root/user" "$root/nowhere" >"$root/out" || code=$?
    [ "$code" = 2 ] || fail "an absent checkpoint is status $code for the $1 library"
    grep -q '^not-found: ' "$root/out" || fail "the $1 library does not say that a checkpoint is absent"
    command -v ldd >/dev/null 2>&1 || return 0
    ldd "$root/user" >"$root/loaded"
    [ "$(grep -Ec 'blas|lapack' "$root/loaded")" = 1 ] || fail "a program with the $1 library loads not one BLAS: $(cat "$root/loaded")"
    case $1 in
    shared)
        [ "$(awk '/openblas/ { print $3 }' "$root/loaded")" = "$ours" ] ||
            fail "a program with the shared library loads another OpenBLAS than ours"
        grep -q 'librankscope\.so\.0 =>' "$root/loaded" || fail "a program with the shared library does not load librankscope.so.0"
        ;;
    static) ! grep -q librankscope "$root/loaded" || fail "a program with the static library loads the shared one" ;;
    esac
}

compile "$(pkg-config --cflags --libs rankscope) -Wl,-rpath,\"$libraries\""
check_user shared
# Of two libraries in a folder the linker takes the shared one, unless it is given the file's name.
if [ "$(uname -s)" = Darwin ]; then
    mkdir "$root/static"
    ln -s "$libraries/librankscope.a" "$root/static/"
    compile "-L\"$root/static\" $(pkg-config --cflags --libs --static rankscope)"
else
    compile "$(pkg-config --cflags --libs --static rankscope | sed 's/-lrankscope/-l:librankscope.a/')"
fi
check_user static

# Uninstalling: from a copy of the scripts, so that the record of a real install stays.
tree=$root/tree
mkdir -p "$tree/scripts" "$tree/build"
cp "$(dirname "$0")/../../scripts/install_record.sh" "$(dirname "$0")/../../scripts/uninstall.sh" "$tree/scripts/"
files=$(find "$prefix" -type f -o -type l | wc -l)
[ "$(grep -c '' "$root/installed")" -le "$files" ] || fail "the manifest names files outside the prefix"
record() {
    cp "$root/installed" "$tree/build/install_manifest.txt"
    [ -z "${1:-}" ] || printf '\n%s' "$1" >>"$tree/build/install_manifest.txt"
    (cd / && "$tree/scripts/install_record.sh")
}
uninstall() { PREFIX=$1 "$tree/scripts/uninstall.sh" 2>"$root/said"; }

# Another prefix than that of the install, and a file elsewhere in the list, spelled so that it seems to lie inside: neither is touched.
mkdir "$root/elsewhere" "$root/other"
echo mine >"$root/elsewhere/file"
record "$prefix/../elsewhere/file"
uninstall "$root/other" && fail "uninstalling from another prefix succeeds"
[ "$(find "$prefix" -type f -o -type l | wc -l)" = "$files" ] || fail "uninstalling from another prefix removes files"
uninstall "$prefix" && fail "a file outside the prefix is not reported"
grep -q "elsewhere/file: it does not lie below" "$root/said" || fail "a file outside the prefix is not named"
[ -f "$root/elsewhere/file" ] || fail "uninstalling removes a file outside the prefix"
[ "$(find "$prefix" -type f -o -type l | wc -l)" = 0 ] || fail "uninstalling leaves $(find "$prefix" -type f -o -type l)"
[ -z "$(find "$prefix" -type d -name rankscope)" ] || fail "uninstalling leaves $(find "$prefix" -type d -name rankscope)"

# A folder that has become a link to outside, a file that somebody else has replaced, and files of others.
"$cmake" --install "$build" --prefix "$prefix" >/dev/null
if [ -f "$root/manifest" ]; then cp "$root/manifest" "$manifest"; else rm -f "$manifest"; fi
record
mv "$prefix/share/man" "$root/elsewhere/man"
ln -s "$root/elsewhere/man" "$prefix/share/man"
echo "another program" >"$prefix/bin/rankscope"
echo other >"$prefix/bin/other"
uninstall "$prefix" && fail "files behind a link to outside are not reported"
[ -f "$root/elsewhere/man/man1/rankscope.1" ] || fail "uninstalling follows a link out of the prefix"
[ "$(cat "$prefix/bin/rankscope")" = "another program" ] || fail "uninstalling removes what another program installed"
grep -q "bin/rankscope: it is not what was installed" "$root/said" || fail "the file left is not named"
left=$(cd "$prefix" && find . -type f -o -type l | sort | tr '\n' ' ')
[ "$left" = "./bin/other ./bin/rankscope ./share/man " ] || fail "uninstalling leaves $left"

# With DESTDIR, as packagers install.
DESTDIR=$root/stage "$cmake" --install "$build" --prefix /opt/rs >/dev/null
cp "$manifest" "$root/installed"
if [ -f "$root/manifest" ]; then cp "$root/manifest" "$manifest"; else rm -f "$manifest"; fi
DESTDIR=$root/stage
export DESTDIR
record
uninstall /opt/rs || fail "uninstalling with DESTDIR: $(cat "$root/said")"
[ "$(find "$root/stage" -type f | wc -l)" = 0 ] || fail "uninstalling with DESTDIR leaves files"
uninstall /opt/rs && fail "uninstalling twice succeeds"
echo "$files files installed, checked and uninstalled"
