#!/bin/sh
# train_memory.sh: what `rankscope train --memory` counts is what a run takes: no less than its peak beside that of a run of nothing, and not
# much more; a run that has no room is refused before anything is drawn, by its task's name.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
rm -rf run wide
set -- mqar --set batch=8 --set data.length=256 --set data.pairs=8 --set model.d_model=128 --set steps=3 --set rank_every=2 --set log_every=1 \
    --set eval_every=2 --threads 1
refused_by train memory-limit "error: mqar: the " "$@" --out wide --memory 64M
says err "the copies for checkpoints need 26.0 MiB"
[ ! -e wide ] || note_failure "a run that was refused made its folder"
[ -z "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] || { echo "sanitizers take memory of their own: the peaks are not compared"; finish; }
[ "$(uname)" = Linux ] || { echo "peaks are compared where they are told in KiB"; finish; }
python3 - "$RANKSCOPE" <<'END' || note_failure "the memory of runs is not what is counted"
import json, shutil, subprocess, sys
program = sys.argv[1]
once = "import resource,subprocess,sys\ncode=subprocess.call(sys.argv[1:])\nprint(code,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1024)"

def sets(*fields):
    return [word for field in ("steps=3", "log_every=1", *fields) for word in ("--set", field)]

def peak(*words):
    done = subprocess.run([sys.executable, "-c", once, program, "train", *words, "--quiet", "--threads", "1"], capture_output=True, text=True)
    code, mib = done.stdout.split()
    assert code == "0", done.stderr
    return float(mib)

def counted(*words):
    subprocess.run([program, "train", *words, "--quiet", "--threads", "1", "--dry-run", "--json", "plan.json"], check=True)
    return {row["name"]: row["value"] for row in json.load(open("plan.json"))["tables"]["plan"]}["memory"]

nothing = peak("reversal", *sets("model.d_model=2", "model.heads=1", "model.depth=1", "batch=1", "data.length=2", "rank_every=0"))
wrong = 0
for words in (["mqar", *sets("batch=8", "data.length=256", "data.pairs=8", "model.d_model=128", "rank_every=2", "eval_every=2"), "--out", "run"],
              ["associative-recall", *sets("batch=256", "rank_every=2", "eval_every=2")],
              ["reversal", *sets("model.d_model=512", "model.heads=8", "batch=8", "rank_every=2", "accumulate=2"), "--out", "run"],
              ["reversal", *sets("data.length=512", "batch=8", "precision=f64", "model.d_model=64", "model.heads=2", "rank_every=2")]):
    shutil.rmtree("run", ignore_errors=True)
    said, took = counted(*words), peak(*words) - nothing
    print(f"{words[0]}: {said:.1f} MiB counted, {took:.1f} taken")
    wrong += not 0.97 * took <= said <= 1.7 * took
sys.exit(wrong > 0)
END
finish
