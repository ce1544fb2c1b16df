"""Writes tests/golden/ssm_rest.json: table `ssm` of the state-space models of tests/golden/families, in NumPy.

Measured cells are cut out of the stored tensors. The expected ones come from the densities of the least and the
greatest of n log-uniform steps (mpmath), another route than the program's, and a Monte Carlo of the whole
initialisation must agree with each within six standard errors. Takes no arguments:
python tests/oracle/make_ssm_rest_golden.py
"""

import json
import pathlib

import mpmath as mp
import numpy as np
from safetensors.numpy import load_file

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
CASES = [("mamba", {}), ("falcon_mamba", {}), ("jamba", {}), ("mamba2", {}), ("bamba", {}), ("granitemoehybrid", {}),
         ("falcon_h1", {}), ("zamba2", {}), ("nemotron_h", {}),
         ("mamba2", {"time_step_limit": [0.004, 0.02], "time_step_floor": 0.006}),
         ("mamba2", {"time_step_limit": [0.0, {"__float__": "Infinity"}], "time_step_min": 0.05, "time_step_max": 0.05}),
         ("zamba2", {"time_step_min": 0.7, "time_step_max": 0.9}),
         ("mamba", {"time_step_floor": 0.003, "time_step_min": 0.001, "time_step_max": 0.3})]
MINIMUM = ("zamba2", "nemotron_h")  # their modules limit steps by (time_step_min, infinity)


def number(x):
    return float("inf") if isinstance(x, (str, dict)) else float(x)


def law_of(name, cfg):
    low, high, floor = (cfg.get(k, v) for k, v in (("time_step_min", 1e-3), ("time_step_max", 0.1), ("time_step_floor", 1e-4)))
    if name in MINIMUM:
        return low, high, floor, low, float("inf")
    least, most = (number(x) for x in cfg.get("time_step_limit") or (0.0, float("inf"))) if "A_head" in cfg else (0.0, float("inf"))
    return low, high, floor, least, most


def expected(law, g, n, greatest):
    """E g(step), the step the extreme of n: g at both ends of what is cut, and the density between."""
    low, high, floor, least, most = law
    cut = lambda x: min(max(max(x, floor), least), most)
    if low == high:
        return float(g(mp.mpf(cut(low))))
    cdf = lambda x: mp.log(x / low) / mp.log(mp.mpf(high) / low)
    of = (lambda x: cdf(x) ** n) if greatest else (lambda x: 1 - (1 - cdf(x)) ** n)
    a = min(max(low, floor, least), high)
    b = max(min(high, most), low)
    if a >= b:
        return float(g(mp.mpf(cut(a))))
    density = lambda x: n * (cdf(x) if greatest else 1 - cdf(x)) ** (n - 1) / (x * mp.log(mp.mpf(high) / low))
    points = [mp.mpf(a) * (mp.mpf(b) / a) ** (mp.mpf(i) / 16) for i in range(17)]
    middle = mp.quad(lambda x: g(x) * density(x), points)
    return float(g(mp.mpf(cut(a))) * of(a) + middle + g(mp.mpf(cut(b))) * (1 - of(b)))


def simulate(law, rates, draws, rng):
    """Least decay, greatest decay and mean step over the channels (rows of rates), for many initialisations."""
    low, high, floor, least, most = law
    step = np.exp(rng.random((draws, len(rates))) * (np.log(high) - np.log(low)) + np.log(low))
    step = np.clip(np.maximum(step, floor), least, most)
    decay = np.exp(-step[:, :, None] * rates)
    return decay.min((1, 2)), decay.max((1, 2)), step.mean(1)


def softplus(x):
    return np.logaddexp(0.0, x)


def row(layer, head, a, dt, d, law, rng):
    """a: [channels, states]; dt, d: [channels]; head None: the rates at initialisation are 1, ..., states."""
    step = np.clip(softplus(dt), law[3], law[4])
    decay = np.exp(a * step[:, None])
    rates = np.tile(np.arange(1, a.shape[1] + 1.0), (len(a), 1)) if head is None else np.array([[head + 1.0]])
    n, slow, fast = len(a), rates.min(), rates.max()
    null = [expected(law, lambda x: mp.exp(-fast * x), n, True), expected(law, lambda x: mp.exp(-slow * x), n, False),
            expected(law, lambda x: x, 1, False)]
    for drawn, want in zip(simulate(law, rates, 40000, rng), null):
        error = drawn.std() / np.sqrt(len(drawn))
        assert abs(drawn.mean() - want) <= 6 * error + 1e-12, (layer, head, drawn.mean(), want, error)
    return dict(layer=layer, head=head, decay_min=decay.min(), decay_max=decay.max(), delta_rest=step.mean(),
                d_mean=np.abs(d).mean(), d_max=np.abs(d).max(), decay_min_null=null[0], decay_max_null=null[1],
                delta_rest_null=null[2], d_mean_null=1.0, d_max_null=1.0)


def rows(name, change, rng):
    cfg = json.loads((GOLDEN / "families" / name / "config.json").read_text()) | change
    weights = {k: v.astype(np.float64) for k, v in load_file(GOLDEN / "families" / name / "model.safetensors").items()}
    for key in sorted((k for k in weights if k.endswith(".A_log")), key=lambda k: int(k.split("layers.")[1].split(".")[0])):
        base, layer = key[:-len("A_log")], int(key.split("layers.")[1].split(".")[0])
        a, d = -np.exp(weights[key]), weights[base + "D"]
        law = law_of(name, cfg | ({"A_head": 1} if a.ndim == 1 else {}))
        if a.ndim == 2:
            yield row(layer, None, a, weights[base + "dt_proj.bias"], d, law, rng)
        else:
            for h, rate in enumerate(a):
                yield row(layer, h, np.array([[rate]]), weights[base + "dt_bias"][h:h + 1], d[h:h + 1], law, rng)


def main():
    mp.mp.dps = 30
    rng = np.random.default_rng(14)
    cases = [dict(family=name, change=change, rows=list(rows(name, change, rng))) for name, change in CASES]
    text = ",\n".join(json.dumps(c) for c in cases)
    (GOLDEN / "ssm_rest.json").write_text("[" + text + "]\n")
    print(len(cases), "cases,", sum(len(c["rows"]) for c in cases), "rows")


if __name__ == "__main__":
    main()
