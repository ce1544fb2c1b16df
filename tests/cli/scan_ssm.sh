#!/bin/sh
# scan_ssm.sh: table `ssm` of scan against NumPy and mpmath, its closed forms, and rates that overflow or are missing.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
cat >ssm.py <<'END'
import json, math, os, shutil, struct, subprocess, sys
program, golden = sys.argv[1], sys.argv[2] + "/tests/golden"
wrong = []

def copy(family, change=None, patch=None):
    """A copy of a model: fields of its configuration changed; patch: {tensor: [(entry, number)]}, None removes it."""
    shutil.rmtree("model", ignore_errors=True)
    shutil.copytree(f"{golden}/families/{family}", "model")
    config = json.load(open("model/config.json"))
    json.dump(config | (change or {}), open("model/config.json", "w"))
    data = bytearray(open("model/model.safetensors", "rb").read())
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    for name, entries in (patch or {}).items():
        name = next(k for k in header if k.endswith(name))
        if entries is None:
            header["x" + name[1:]] = header.pop(name)
            continue
        assert header[name]["dtype"] == "F32"
        for entry, number in entries:
            struct.pack_into("<f", data, 8 + length + header[name]["data_offsets"][0] + 4 * entry, number)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    open("model/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data[8 + length:])

def scan(path, *options):
    run = subprocess.run([program, "scan", path, "--threads", "1", "--verbose", "--json", "-", *options], capture_output=True)
    def never(x):
        wrong.append(f"{path}: {x} in the JSON")
    if run.returncode:
        wrong.append(f"{path} {options}: {run.stderr.decode()}")
        return {"tables": {}, "findings": []}
    return json.loads(run.stdout, parse_constant=never)

def compare(what, got, want):
    if len(got) != len(want):
        wrong.append(f"{what}: {len(got)} rows, not {len(want)}")
    for g, w in zip(got, want):
        for key, value in w.items():
            near = 1e-10 if key.endswith("_null") else 1e-12
            same = g[key] == value if value is None or key in ("layer", "head") else g[key] is not None and abs(g[key] - value) <= near * abs(value)
            if not same:
                wrong.append(f"{what}, layer {w['layer']} head {w['head']}: {key} is {g[key]}, not {value}")

cases = json.load(open(f"{golden}/ssm_rest.json"))
for case in cases:
    copy(case["family"], case["change"])
    result = scan("model")
    compare(f"{case['family']} {case['change']}", result["tables"].get("ssm", []), case["rows"])
    # Decays and steps of twins in GGUF, which keep a instead of A_log and no limits.
    if not case["change"] and os.path.exists(twin := f"{golden}/families_gguf/{case['family']}/model.gguf"):
        keys = ("layer", "head", "delta_rest", "d_mean", "d_max")
        rows = scan(twin)["tables"].get("ssm", [])
        compare(twin, rows, [{k: r[k] for k in keys} for r in case["rows"]])
        if any(abs(r[k] - w[k]) > 1e-6 * w[k] for r, w in zip(rows, case["rows"]) for k in ("decay_min", "decay_max")):
            wrong.append(f"{twin}: other decays than its folder's")
plain = next(c for c in cases if c["family"] == "mamba2")["rows"]

# One step alone is drawn: closed forms.
copy("mamba2", {"time_step_min": 0.05, "time_step_max": 0.05, "time_step_limit": [0.0, "Infinity"]})
for r in scan("model")["tables"]["ssm"]:
    if abs(r["decay_min_null"] - math.exp(-0.05 * (r["head"] + 1))) > 1e-15 or abs(r["delta_rest_null"] - 0.05) > 1e-16:
        wrong.append(f"one step: {r}")

def told(result, code, *parts):
    texts = [f["message"] for f in result["findings"] if f["code"] == code]
    if not any(all(p in t for p in parts) for t in texts):
        wrong.append(f"no {code} with {parts}, but {texts}")

A = "layers.1.mixer.A_log"
copy("mamba2", patch={A: [(2, 800.0)]})
result = scan("model")
told(result, "rate_overflow", A, "entry 2")
compare("overflow", result["tables"]["ssm"],
        [dict(r, decay_min=None, decay_max=None) if (r["layer"], r["head"]) == (1, 2) else r for r in plain])
copy("mamba2", patch={A: [(0, float("nan"))]})
told(scan("model"), "nonfinite_weights", A)
told(scan("model", "--matrices", "all"), "nonfinite_weights", A)
copy("mamba2", patch={A: [(0, float("-inf"))], "layers.1.mixer.dt_bias": [(1, 3e38), (2, -3e38)]})
rows = scan("model")["tables"]["ssm"][4:]
if rows[0]["decay_min"] != 1 or rows[1]["decay_max"] != 0 or rows[2]["decay_min"] != 1 or rows[2]["delta_rest"] != 0:
    wrong.append(f"no rate, a huge step, none: {rows}")
copy("mamba", patch={"layers.0.mixer.A_log": [(3, 1e4)]})
result = scan("model")
told(result, "rate_overflow", "layers.0.mixer.A_log", "entry 3")
if result["tables"]["ssm"][0]["decay_min"] is not None or result["tables"]["ssm"][1]["decay_min"] is None:
    wrong.append("an overflow hides the decays of its layer, and of no other")
copy("mamba2", patch={"layers.0.mixer.dt_bias": None})
result = scan("model")
told(result, "rest_unknown", "layer 0", "bias of dt")
compare("no bias", result["tables"]["ssm"],
        [dict(r, decay_min=None, decay_max=None, delta_rest=None) if r["layer"] == 0 else r for r in plain])
copy("mamba2", {"time_step_limit": [2, 1]})
result = scan("model")
told(result, "rest_unknown", "time_step_limit")
if any(r["decay_min"] is not None or r["delta_rest_null"] is not None for r in result["tables"]["ssm"]):
    wrong.append("limits that cannot be read hide steps and decays")

# Nemotron-H's older names count where they are there.
names = {"time_step_min": "mamba_dt_min", "time_step_max": "mamba_dt_max", "time_step_floor": "mamba_dt_init_floor"}
change = {"time_step_min": 0.3, "time_step_max": 0.9, "time_step_floor": 0.35}
copy("nemotron_h", change)
today = scan("model")["tables"]["ssm"]
copy("nemotron_h", {"time_step_min": 0.001, "time_step_max": 0.1} | {names[k]: v for k, v in change.items()})
compare("older names", scan("model")["tables"]["ssm"], today)
if not today or today[0]["delta_rest_null"] < 0.35:
    wrong.append("the fields do not count")

# What the run read is analysed; --layers chooses.
copy("mamba2")
result = scan("model", "--layers", "1")
if {r["layer"] for r in result["tables"]["ssm"]} != {1}:
    wrong.append("--layers 1 shows others")
status = {t["tensor"].removeprefix("backbone."): t["status"] for t in result["tables"]["tensors"]}
for name in ("A_log", "D", "dt_bias"):
    if (status[f"layers.0.mixer.{name}"], status[f"layers.1.mixer.{name}"]) != ("decoded only", "analysed"):
        wrong.append(f"status of {name}")
if "ssm" in scan(f"{golden}/families/llama")["tables"]:
    wrong.append("a model without state-space layers has table ssm")
print("\n".join(wrong))
sys.exit(bool(wrong))
END
python3 ssm.py "$RANKSCOPE" "$RS_SOURCE_DIR" >why || { note_failure "table ssm"; head -20 why; }
for family in mamba mamba2; do
    COLUMNS=80 "$RANKSCOPE" scan "$RS_SOURCE_DIR/tests/golden/families/$family" --table ssm >shown 2>&1 || note_failure "$family is not shown"
    grep -q "State-space layers at rest" shown || note_failure "$family has no table"
    awk 'length > 80 { exit 1 }' shown || note_failure "$family is wider than 80 columns"
done
expect 0 "$RANKSCOPE" explain decay_min_null
finish
