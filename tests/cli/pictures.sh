#!/bin/sh
# pictures.sh: --svg and --png write every figure of every command, the same bytes each time, and never half a folder.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
rm -rf model one two both ./*.json ./*.html && tiny_model model
golden=$RS_SOURCE_DIR/tests/golden/forward/llama
printf '[[5, 9, 2, 7, 1, 3, 8, 4], [4, 4, 1, 0, 2, 9, 9, 1]]' >ids.json

# Whether a folder has just the figures that the result names, each well-formed.
figures_of() { # RESULT FOLDER KIND
    python3 - "$@" <<'END' || failures=$((failures + 1))
import json, os, struct, sys
import xml.etree.ElementTree as tree
result, folder, kind = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]
names = sorted(result["figures"])
assert names and sorted(os.listdir(folder)) == [f"{n}.{kind}" for n in names], (names, os.listdir(folder))
for name in names:
    data = open(f"{folder}/{name}.{kind}", "rb").read()
    if kind == "png":
        assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"IEND\xaeB`\x82"), name
        assert struct.unpack(">I", data[16:20])[0] > 300, name
        continue
    root = tree.fromstring(data)
    space = "{http://www.w3.org/2000/svg}"
    width, height = float(root.get("width")), float(root.get("height"))
    spec = result["figures"][name]
    assert root.find(f"{space}title").text == spec["title"], name
    for text in root.iter(f"{space}text"):
        if text.get("x"):
            assert 0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height, (name, text.text)
    words = " ".join(t.text for t in root.iter(f"{space}text"))
    layers = spec.get("spec", spec)["layer"]
    title = next(l["encoding"]["y"]["title"] for l in layers if "title" in l.get("encoding", {}).get("y", {}))
    assert title in words, (name, title)
    for row in spec["data"]["values"]:
        assert row.get("label", "") in words, (name, row["label"])
        assert row.get("note", "") in words, (name, row["note"])
END
}

rm -rf one two probed certified pathed labs both taken png again # of an earlier run
expect 0 "$RANKSCOPE" scan model --json scan.json --svg one --quiet
silent out
figures_of scan.json one svg
expect 0 "$RANKSCOPE" scan model --svg two --threads 1 --quiet
diff -r one two || note_failure "two runs drew different pictures"
expect 0 "$RANKSCOPE" probe "$golden" --tokens ids.json --variants dong --json probe.json --svg probed --quiet
figures_of probe.json probed svg
expect 0 "$RANKSCOPE" certify "$golden" --tokens ids.json --json certify.json --svg certified --quiet
figures_of certify.json certified svg
expect 0 "$RANKSCOPE" paths "$golden" --tokens ids.json --json paths.json --svg pathed --quiet
figures_of paths.json pathed svg
expect 0 "$RANKSCOPE" lab run dong-mlp --quick --json lab.json --svg labs --quiet
figures_of lab.json labs svg
grep -q "san, published" labs/dong_mlp.svg || note_failure "the published curve has no name"

# One folder for tables and pictures is fine; a picture in the place of another output is not.
expect 0 "$RANKSCOPE" scan model --csv both --svg both --quiet
{ [ -s both/heads.svg ] && [ -s both/heads.csv ]; } || note_failure "one folder does not hold tables and figures"
expect 2 "$RANKSCOPE" scan model --svg clash --json clash --quiet
[ ! -e clash ] || note_failure "a refused run left something"
mkdir taken taken/heads.svg
expect 1 "$RANKSCOPE" scan model --svg taken --json gone.json --quiet
{ [ ! -e gone.json ] && [ ! -e taken/spectra.svg ]; } || note_failure "half of the outputs appeared"

# PNG, where Cairo is: refused before the work where it is not. doctor says which.
expect 0 "$RANKSCOPE" doctor --json machine.json --quiet
if "$RANKSCOPE" scan model --png png --quiet 2>refusal; then
    figures_of scan.json png png
    expect 0 "$RANKSCOPE" scan model --png again --quiet
    diff -r png again || note_failure "two runs drew different PNG"
    says machine.json '"drawn by Cairo '
else
    says refusal "Cairo"
    says machine.json "no Cairo here: --png is refused"
    expect 2 "$RANKSCOPE" scan model --png png --quiet
    [ ! -e png ] || note_failure "a refused run left a folder"
fi

# Where Cairo is not: the loader finds every library but that one.
cat >shim.c <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);
    void *found = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &found, sizeof found);
    return name && strstr(name, "libcairo") ? real("/absent/libcairo.so.2", flags) : real(name, flags);
}
END
without_cairo() { # STATUS ARGUMENTS...
    wanted=$1
    shift
    expect "$wanted" env LD_PRELOAD="$PWD/shim.so" "$RANKSCOPE" "$@"
}
rm -rf bare bare.json drawn kept && mkdir kept && echo mine >kept/file
if [ "$(uname -s)" != Linux ] || [ -n "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || ! cc -shared -fPIC -o shim.so shim.c -ldl; then
    echo "no Cairo is not tried: the shim needs Linux, a C compiler and no sanitizer, whose runtime must be loaded first"
else
    without_cairo 2 scan model --png bare --json bare.json --csv bare --quiet
    silent out
    says err "[bad-option]"
    says err "--png: Cairo, which draws PNG, cannot be loaded"
    says err "use --svg"
    if [ -e bare ] || [ -e bare.json ]; then note_failure "a refused run wrote something"; fi
    without_cairo 2 scan model --png kept --quiet
    [ "$(ls kept)" = file ] || note_failure "a refused run wrote into a folder that was there: $(ls kept)"
    without_cairo 2 lab run dong-mlp --png bare --svg drawn --quiet # before the work
    [ ! -e drawn ] || note_failure "half of the outputs appeared"
    without_cairo 0 scan model --svg drawn --quiet
    diff -r one drawn || note_failure "without Cairo the SVG are others"
    without_cairo 0 doctor --json machine.json --quiet
    says machine.json "no Cairo here: --png is refused"
fi

# Folders that were made for one run go with it, however many they are.
expect 1 "$RANKSCOPE" scan "$RS_SOURCE_DIR/tests/golden/forward/bert" --quiet --csv many --svg many/svg --png /proc/nowhere
if [ -e many ]; then note_failure "folders are left: $(find many)"; fi
finish
