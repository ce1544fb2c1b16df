"""Option --null random by a second run: an untrained twin has the same options and --init default (docs/probe.md)."""
import json

from .case import GOLDEN
from .draws import draw_architecture

COLUMNS = "entropy", "spectral_gap", "dobrushin", "self_weight", "first_token_weight", "logit_variance"


def configured():
    return sorted(p for p in (GOLDEN / "forward").iterdir() if (p / "config.json").exists() and (p / "model.safetensors").exists())


def draw(rng, folder):
    options = ["--random", str(rng.choice([1, 2, 4])), "--seed", str(rng.randrange(1000)), "--threads", "1", "--no-spectral"]
    if rng.random() < 0.4:
        (folder / "a.json").write_text(json.dumps(draw_architecture(rng, 12)))
        source, law = "a.json", rng.choice(["default", "default", "orthogonal", "xavier", "normal(0, 25/fan_in)"])
    else:
        source, law = str(rng.choice(configured())), rng.choice([None, None, None, "default", "orthogonal", "normal(0, 1/d)"])
        options += ["--seq-len", str(rng.choice([1, 2, 5, 8, 12]))]
    options += rng.choice([[], [], ["--precision", "f64"], ["--precision", "f64"], ["--precision", "residual"]])
    options += rng.choice([[], [], [], ["--variants", "dong"], ["--variants", "full,half=lambda:0.5"], ["--variants", "san,pure"],
                           ["--no-skip"], ["--no-mlp"], ["--temperature", "0.1"], ["--depth", "5"], ["--no-mask"],
                           ["--uniform-attention"], ["--attention-rescale", "2"], ["--no-norm"], ["--batch", "1"]])
    twin = ["probe", source, "--init", "default"] + options
    return ["probe", source] + (["--init", law] if law else []) + options + ["--null", "random"], twin


def check(case, twin, run):
    other = run(twin)
    case.check(other is not None, "the twin was refused: " + " ".join(twin))
    if other is None:
        return
    key = lambda row: (row["variant"], row["layer"], row["head"])
    rows, drawn = ({key(r): r for r in result["tables"].get("attention") or []} for result in (case.result, other))
    case.check(rows.keys() == drawn.keys(), f"the twin has {len(drawn)} rows of heads, the model {len(rows)}")
    tolerance = 1e-3 if case.result["run"]["precision"] == "f32" else 1e-9
    for name in rows.keys() & drawn.keys():
        for column in COLUMNS:
            null, value = rows[name].get(column + "_null"), drawn[name][column]
            if null is None or value is None:
                case.check(null is None and value is None, f"{column}_null of {name}: {null}, the twin's is {value}")
            else:
                case.check(abs(null - value) <= tolerance * max(abs(value), 1e-6), f"{column}_null of {name}: {null}, the twin's is {value}")
