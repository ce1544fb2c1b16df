#!/bin/sh
# train_killed.sh: kill -9 at random moments, 100 times: what is left is always taken up again, and the weights come out bit for bit as
# those of a run that nothing broke off.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
rm -rf whole cut
cat >task.json <<'END'
{"task": "reversal", "data": {"length": 6, "symbols": 5}, "steps": 3000, "batch": 4, "log_every": 5, "every_checkpoint": 3,
 "model": {"depth": 1, "d_model": 8, "heads": 1, "mlp_width": 8}, "optimizer": {"kind": "adam", "lr": 0.01}}
END
expect 0 "$RANKSCOPE" train task.json --out whole -q --threads 1 --set every_checkpoint=0
python3 - "$RANKSCOPE" <<'END' || note_failure "a killed run did not go on as it should"
import filecmp, json, os, random, shutil, subprocess, sys, time
random.seed(int(os.environ.get("SEED", "1")))
command = [sys.argv[1], "train", "task.json", "--out", "cut", "--resume", "-q", "--threads", "1"]
kills, ends, within = 0, 0, 0

def check():
    global ends
    ends += 1
    assert filecmp.cmp("whole/model.safetensors", "cut/model.safetensors", shallow=False), "other weights"
    lines = [[json.loads(line) for line in open(folder + "/log.jsonl")] for folder in ("whole", "cut")]
    for line in lines[0] + lines[1]:
        del line["seconds"], line["tokens_per_second"]
    assert lines[0] == lines[1], "another log"
    shutil.rmtree("cut")

shutil.rmtree("cut", ignore_errors=True)
while kills < 100 or ends == 0:
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        run.wait(timeout=random.uniform(0.005, 0.4) if kills < 100 else 300)
    except subprocess.TimeoutExpired:
        within += os.path.exists("cut/checkpoints/.writing")
        run.kill()
        kills += 1
        run.wait()
        continue
    message = run.stderr.read().decode()
    assert run.returncode == 0, f"exit {run.returncode} after {kills} kills: {message}"
    check()
print(f"{kills} kills, {within} of them while a checkpoint was being written, {ends} runs to the end")
END
[ $failures = 0 ]
