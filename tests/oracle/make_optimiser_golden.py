#!/usr/bin/env python3
"""Writes tests/golden/train/optimisers.json: ten steps of PyTorch's optimisers (foreach=False) under its schedulers and clipping, on
tensors and gradients that test_train_optimisers.c makes by the same rule.

  tests/oracle/make_optimiser_golden.py      (torch as in requirements.txt)

Four tensors of LCG numbers; the gradient at step t is h * x + b_t, h and b_t by the same generator. The second is a group of its own
(rate 1/2, no decay), the third has another decay, the fourth is frozen. `error32` is how far PyTorch's own float32 is from its float64.
"""
import json
import os

import torch

SIZES = [13, 5, 6, 3]
DECAY = [0.1, 0.0, 0.5, 0.1]
RATE = [1.0, 0.5, 1.0, 1.0]
STEPS = 10
LR = 0.05
OPTIMISERS = ["sgd", "heavy_ball", "adam", "adamw"]
CLIPS = ["none", "all", "each"]
MOST = 0.8


class Lcg:
    def __init__(self, seed):
        self.u = seed

    def tensor(self, n, dtype):
        out = []
        for _ in range(n):
            self.u = (self.u * 6364136223846793005 + 1442695040888963407) % 2**64
            out.append(2 * ((self.u >> 11) / 2.0**53) - 1)
        return torch.tensor(out, dtype=torch.float64).to(dtype)


def warmed(opt, after, warmup):
    """warmup steps (t + 1)/warmup, then `after`, counted from there."""
    first = torch.optim.lr_scheduler.LinearLR(opt, start_factor=1 / warmup, total_iters=warmup - 1)
    return torch.optim.lr_scheduler.SequentialLR(opt, [first, after], milestones=[warmup])


def schedulers():
    s = torch.optim.lr_scheduler
    return {
        "constant": lambda o: s.LambdaLR(o, lambda t: 1.0),
        "constant-warm": lambda o: warmed(o, s.LambdaLR(o, lambda t: 1.0), 4),
        "cosine": lambda o: s.CosineAnnealingLR(o, T_max=STEPS),
        "cosine-warm": lambda o: warmed(o, s.CosineAnnealingLR(o, T_max=STEPS - 3), 3),
        "linear": lambda o: s.LinearLR(o, start_factor=1.0, end_factor=0.1, total_iters=STEPS),
        "inverse_sqrt": lambda o: s.LambdaLR(o, lambda t: min((t + 1) / 3, (3 / (t + 1))**0.5)),
        "step": lambda o: s.StepLR(o, step_size=3, gamma=0.3),
        "milestones": lambda o: s.MultiStepLR(o, milestones=[2, 7], gamma=0.1),
    }


def optimiser(kind, groups):
    t = torch.optim
    if kind == "sgd":
        return t.SGD(groups, lr=LR, foreach=False)
    if kind == "heavy_ball":
        return t.SGD(groups, lr=LR, momentum=0.9, foreach=False)
    return (t.Adam if kind == "adam" else t.AdamW)(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8, foreach=False)


def run(kind, schedule, clip, dtype):
    g = Lcg(11)
    params = [g.tensor(n, dtype).requires_grad_() for n in SIZES]
    curve = [g.tensor(n, dtype) for n in SIZES]
    groups = [dict(params=[p], lr=LR * r, weight_decay=d) for p, r, d in zip(params[:3], RATE, DECAY)]
    opt = optimiser(kind, groups)
    sched = schedulers()[schedule](opt)
    rates = []
    for _ in range(STEPS):
        for p, h in zip(params, curve):
            p.grad = (h * p + g.tensor(p.numel(), dtype)).detach()
        if clip == "all":
            torch.nn.utils.clip_grad_norm_(params[:3], MOST, foreach=False)
        if clip == "each":
            for p in params[:3]:
                torch.nn.utils.clip_grad_norm_([p], MOST, foreach=False)
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        sched.step()
    return torch.cat([p.detach() for p in params]).double(), rates


def main():
    cases = []
    for kind in OPTIMISERS:
        for schedule in schedulers():
            for clip in CLIPS if schedule == "constant" or schedule == "cosine-warm" else CLIPS[:1]:
                weights, rates = run(kind, schedule, clip, torch.float64)
                single, _ = run(kind, schedule, clip, torch.float32)
                cases.append({"optimiser": kind, "schedule": schedule, "clip": clip, "rates": rates, "weights": weights.tolist(),
                              "error32": float((single - weights).abs().max())})
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "train", "optimisers.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


if __name__ == "__main__":
    main()
