#!/usr/bin/env python3
"""published_curves.py RESULT PICTURES PAGE: what `lab run all` draws of the papers, against numbers and laws of its own.

Each figure of RESULT has just the published curves that stand here, with these values; it draws them dotted and with hollow marks, so do its
picture in PICTURES and no others; PAGE (docs/lab.md) says of each experiment whether there is one."""
import json
import math
import re
import sys
import xml.etree.ElementTree as tree

# Dong, Cordonnier, Loukas 2021, means read from their vector figures: BERT and XLNet with random weights, states 0 to 12.
SAN = [.6118, .0176, 7.0e-7, 1.9e-7, 1.9e-7, 1.9e-7, 2.0e-7, 1.8e-7, 2.0e-7, 1.9e-7, 1.9e-7, 2.0e-7, 1.9e-7]
MLP = [.5974, .0174, 8.8e-7, 2.0e-7, 2.0e-7, 2.0e-7, 1.9e-7, 2.0e-7, 2.0e-7, 2.0e-7, 2.0e-7, 2.0e-7, 1.9e-7]
SKIP = [.6072, .5649, .5588, .5651, .5625, .5517, .5290, .5026, .4959, .4874, .4719, .4630, .4489]
FULL = [.5971, .5629, .5351, .5654, .5369, .5292, .4932, .4635, .4393, .4137, .4059, .3645, .3453]
XLNET = [.9996, 1.496e-3, 5.453e-5, 2.6e-6, 2.5e-7] + 8 * [2.2e-7]
PLATEAUS = {"albert, san": [.6690, 1.553e-3, 2.2e-7, 1.8e-7, 1.9e-7, 2.0e-7, 2.0e-7, 2.1e-7, 2.0e-7, 2.0e-7, 1.8e-7, 1.9e-7, 2.0e-7],
            "albert, san+mlp": [.5662, 1.084e-3, 2.3e-7, 2.0e-7, 2.0e-7, 2.1e-7, 2.0e-7, 2.0e-7, 2.0e-7, 2.0e-7, 2.0e-7, 2.1e-7, 1.9e-7],
            "albert, san+skip": [.6420, .6421, .6127, .5461, .4932, .4493, .4120, .3789, .3484, .3207, .2963, .2749, .2555],
            "albert, full": [.6264, .6703, .6098, .5607, .5247, .4632, .4183, .3854, .3593, .3368, .3180, .2892, .2602],
            "xlnet, san": XLNET,
            "xlnet, san+mlp": [1.0203, 1.655e-3, 4.498e-5, 2.0e-6, 2.3e-7, 2.3e-7, 2.3e-7, 2.2e-7, 2.3e-7, 2.3e-7, 2.2e-7, 2.3e-7, 2.2e-7],
            "xlnet, san+skip": [.9976, .9953, .9894, .9896, .9824, .9780, .9731, .9585, .9473, .9436, .9382, .9304, .9272],
            "xlnet, full": [.9917, .9719, .9902, .9769, .9580, .8910, .8437, .8602, .8493, .8217, .8317, .8300, .7378]}
# The same of pretrained models.
PRETRAINED = {"bert, san": [.6872, .6758, .3153, .1389, .0308, 3.492e-3, 1.630e-5, 2.1e-7, 2.0e-7, 2.0e-7, 1.6e-7, 2.0e-7, 2.0e-7],
              "bert, san+mlp": [.6872, .4334, .2093, .0402, 2.169e-3, 3.791e-5, 2.2e-7, 2.0e-7, 1.9e-7, 2.2e-7, 2.2e-7, 2.3e-7, 2.3e-7],
              "bert, san+skip": [.6872, .7169, .6364, .4890, .3531, .2233, .2048, .2401, .2332, .1738, .1408, .0962, .0743],
              "bert, full": [.6872, .6660, .5592, .5041, .4657, .4006, .3789, .3805, .3898, .3912, .3952, .3690, .3096],
              "albert, san, their code": [.8964, .5467, .5449, .2799, .1196, .0268, 2.796e-3, 6.478e-5, 1.8e-7, 1.7e-7, 1.7e-7, 1.7e-7, 1.7e-7],
              "albert, san+mlp": [.8964, .4781, .8802, .1686, .0448, 2.119e-4, 3.4e-7, 3.3e-7, 3.3e-7, 3.6e-7, 3.5e-7, 2.9e-7, 3.5e-7],
              "albert, san+skip, their code": [.8964, .6888, .5154, .3354, .1827, .0680, .0233, 8.933e-3, 3.665e-3, 1.574e-3, 6.966e-4, 3.144e-4, 1.437e-4],
              "albert, full": [.8964, .4900, .4314, .4296, .4209, .4161, .4090, .4103, .4156, .4216, .4343, .5690, .5557],
              "xlnet, san": [.7159, .9225, .5424, .4155, .3782, .1638, .0523, .0453, .0217, .0245, .0294, .0209, 8.910e-3],
              "xlnet, san+mlp": [.7159, .8405, .2775, .0746, .0269, .0195, .0107, 5.606e-3, 2.952e-3, 1.773e-3, 1.632e-3, 1.146e-3, 1.681e-4],
              "xlnet, san+skip": [.7159, .7941, .3954, .2450, .5340, .7557, .7529, .6538, .6292, .5261, .5010, .3707, .1026],
              "xlnet, full": [.7159, .9855, .9267, .6509, .4013, .3336, .2165, .1988, .2009, .1706, .1785, .1734, .5131]}
# The boxes of their notebook, by eye.
BOXES = [1.6e-1, 3e-3, 6e-5] + 9 * [1.5e-6]


def equation(time, n=6, beta=2.0):
    """1 - g of dg/dt = 2 e^(bg) (1-g) ((n-1)g + 1) / (e^b + (n-1) e^(bg)), g(0) = 0, by t(u) of u = -log(1-g): Simpson's rule, Newton's method."""

    def slowness(u):
        g = -math.expm1(-u)
        return (math.exp(beta * (1 - g)) + n - 1) / (2 * ((n - 1) * g + 1))

    def when(u, steps=8000):
        h = u / steps
        inner = sum((4 if i % 2 else 2) * slowness(i * h) for i in range(1, steps))
        return h / 3 * (slowness(0) + inner + slowness(u))

    u = 0.0  # from the left: t(u) is concave, so steps fall short and never beyond
    for _ in range(12):
        step = (time - when(u)) / slowness(u)
        u += step
        if abs(step) < 1e-13:
            break
    return math.exp(-u)


def generated(tag, rows, cols, scale):
    out = []
    for k in range(rows * cols):
        h = ((k + 1) * 2654435761 + tag * 2246822519) % 2 ** 32
        h = (h ^ h >> 15) * 2246822519 % 2 ** 32
        h = (h ^ h >> 13) * 3266489917 % 2 ** 32
        out.append(scale * ((h ^ h >> 16) / 2 ** 31 - 1))
    return [out[i * cols:(i + 1) * cols] for i in range(rows)]


def column_norm(a):
    return max(sum(map(abs, column)) for column in zip(*a))


def layer_factor(layer, d=4):
    """4 |W_QK|_1 |W_V|_(1,inf) / sqrt(d) of a layer of the five tokens: what multiplies the cube in the theorem."""
    q, k, v = (generated(100 + 10 * layer + i, d, d, (2, 2, 1)[i]) for i in range(3))
    qk = [[sum(x * y for x, y in zip(a, b)) for b in k] for a in q]
    return 4 * column_norm(qk) / math.sqrt(d) * math.sqrt(column_norm(v) * column_norm(list(zip(*v))))


def near(got, wanted, tolerance=1e-12):
    return abs(got - wanted) <= tolerance * abs(wanted)


def table(numbers):
    return lambda points: points.keys() == set(range(len(numbers))) and all(near(points[i], v) for i, v in enumerate(numbers))


def boxes(points):
    return points.keys() == set(range(1, 13)) and all(near(points[k + 1], v) for k, v in enumerate(BOXES))


def law(formula, tolerance=1e-12):
    return lambda points: len(points) > 5 and all(near(y, formula(x), tolerance) for x, y in points.items())


def mask_bound(points):
    """(1 - e)^l of the causal mask, where each token sees the first: r = 1, and of 16 keys one has 1/16 or less."""
    factor = points[1]
    return points.keys() == set(range(25)) and 15 / 16 <= factor < 1 and all(near(y, factor ** l, 1e-13) for l, y in points.items())


def theorem(points):
    """log10 of r' = factor r^3, layer by layer; the bound begins where it is below the state it began at."""
    steps = [l for l in range(2, 34) if l in points]
    return len(steps) == 32 and 34 in points and all(
        abs(points[l + 1] - 3 * points[l] + math.log10(layer_factor(l))) <= 1e-14 * points[l + 1] + 1e-12 for l in steps)


def quoted(strength, n=4, d=3, decay=0.9):
    """sqrt(N) (1 - (e w)^2 decay^(2N))^K of theorem 4.3 as quoted, W = w I, e the least cosine of four tokens from a hash, where it can be seen."""
    rows = [[abs(v) + 0.3 for v in row] for row in generated(71, n, d, 1)]
    length = [math.sqrt(sum(v * v for v in row)) for row in rows]
    least = min(sum(a * b for a, b in zip(rows[i], rows[j])) / length[i] / length[j] for i in range(n) for j in range(i))
    factor = 1 - (least * strength) ** 2 * decay ** (2 * n)
    shown = [l for l in range(41) if 2 * factor ** l > 1e-10]
    return lambda points: points.keys() == set(shown) and all(near(points[l], 2 * factor ** l, 1e-11) for l in shown)


PUBLISHED = {
    "dong_depth_init": {f"{v}, published (float32)": table(n) for v, n in (("san", SAN), ("san+mlp", MLP), ("san+skip", SKIP), ("full", FULL))},
    **{f"dong_depth_{n}": {f"{v}, published": table(m) for v, m in PLATEAUS.items() if v.startswith(n)} for n in ("albert", "xlnet")},
    "dong_depth_ids": {},
    **{f"dong_depth_pretrained{p}": {f"{v}, published": table(m) for v, m in PRETRAINED.items() if v.startswith(n)}
       for n, p in (("bert", ""), ("albert", "_albert"), ("xlnet", "_xlnet"))},
    "dong_perturbation_lemma": {"1 + 2D (published lemma)": law(lambda d: 1 + 2 * d)},
    "causal_half_law": {},
    "relative_position_linear_rate": {"XLNet at random, published (relative)": table(XLNET)},
    "equiangular_ode": {"equation, published": law(equation, 1e-9)},
    "dobrushin_mask": {"causal, published bound": mask_bound},
    "lambda_attention": {},
    "dong_skip_lower_bound": {},
    "dong_layernorm": {},
    "dong_mlp": {"san, published": table(SAN[:3]), "san+mlp, published": table(MLP[:3])},
    "dong_lipschitz": {},
    "dong_heads": {},
    "dong_bounds": {"published: at most 1": law(lambda size: 1)},
    "dong_doubly_exponential": {"published bound": theorem,
                                "BERT-base, published (float32)": table([-math.log10(v) for v in SAN])},
    "dong_paths": {"notebook, published, by eye": boxes},
    "dong_sorting": {},
    "dong_convex_hull": {},
    "dong_memorization": {},
    "dong_circle": {},
    "dong_ensemble": {},
    "graph_oversmoothing": {},
    "ssm_homogeneity": {},
    "ssm_rank_one_without_mu": {},
    "one_layer_collapse": {},
    "lambda_minus_three_halves": {},
    "consensus_threshold": {},
    "gate_reinjects": {},
    "lti_with_and_without_norm": {},
    "lrp_conservation": {},
    "lambda_theorem_4_3": {"quoted, W = I": quoted(1), "quoted, W = 1.75 I": quoted(1.75)},
    "lambda_theorem_4_1": {},
    "lambda_figure_1": {},
    "lambda_figure_2": {},
    "lambda_figure_3": {},
    "kobayashi_fig1": {},
    "kobayashi_fig1_balance": {},
    "kobayashi_fig2": {},
    "kobayashi_fig3": {},
    "lambda_table1_small": {},
    "dong_ensembles": {},
    "kobayashi_table1_small": {},
    "kobayashi_fig4": {},
    "kobayashi_fig5": {},
    "kobayashi_theorems": {},
    "certificate_global_minimum": {},
    "gqa_balance": {},
    "rope_planes": {},
    "heavy_ball_root": {},
    "product_penalty": {},
    "alarms": {},
    "gap_width_collapse": {},
    "gap_fixed_dk": {},
    "gap_bert_init": {},
    "centred_identities": {},
    "oversmoothing_bound": {},
    "shaped_sde": {},
    "espa": {},
    "sas_at_init": {},
    "softmax_moment": {},
    "noci_fig1": {},
    "noci_fig1_density": {},
    "noci_lemma_3_2": {},
    "noci_theorem_3_3": {},
    "noci_hyperparameters": {},
    "noci_fig1_training": {},
    "noci_fig5_adam": {},
    "noci_table1_small": {},
    "gap_training": {},
    "skipless_train": {},
    "fusion_train": {},
    "xiong_last_layer": {},
    "alarms_loss": {},
}
# Figures that are the second ones of their experiments: the page has a row an experiment.
SECOND = {"dong_depth_albert", "dong_depth_xlnet", "dong_depth_ids", "dong_depth_pretrained_albert", "dong_depth_pretrained_xlnet",
          "kobayashi_fig1_balance", "alarms_loss", "noci_fig1_density"}
wrong = []


def check(truth, *words):
    if not truth:
        wrong.append(" ".join(map(str, words)))


def curves_of(spec, x, y):
    """Points of each curve, of its first panel, and which of them are marked as published."""
    points, published = {}, set()
    for row in spec["data"]["values"]:
        published |= {row["curve"]} if row.get("published") else set()
        points.setdefault(row["curve"], {}).setdefault(row[x], row[y])
    return points, published


def look_of(layers, part):
    """The dash or the marker of each curve."""
    scales = [layer["encoding"][part]["scale"] for layer in layers if part in layer["encoding"]]
    return dict(zip(scales[0]["domain"], map(str, scales[0]["range"])))


def check_figure(name, spec, rows, picture):
    layers = spec.get("spec", spec)["layer"]
    lines = next(layer for layer in layers if layer["mark"].get("type") == "line")["encoding"]
    points, published = curves_of(spec, lines["x"]["field"], lines["y"]["field"])
    check(published == PUBLISHED[name].keys(), name, "has as published", sorted(published))
    for curve in published & PUBLISHED[name].keys():
        # a figure rounds to seven digits what its table has
        exact = {row[lines["x"]["field"]]: row[lines["y"]["field"]] for row in rows if row.get("series") == curve} or points[curve]
        drawn = [number for point in sorted(points[curve].items()) for number in point]
        there = [number for point in sorted(exact.items()) for number in point]
        check(len(drawn) == len(there) and all(near(a, b, 1e-6) for a, b in zip(drawn, there)), f"{name}: '{curve}' is not as its table has it")
        check(PUBLISHED[name][curve](exact), f"{name}: the points of '{curve}':", exact)
    dashes, markers = look_of(layers, "strokeDash"), look_of(layers, "shape")
    colours = dict(zip(lines["color"]["scale"]["domain"], lines["color"]["scale"]["range"]))
    for curve in dashes:
        check((dashes[curve] == "[1.5, 3.5]") == (curve in published), f"{name}: the dash of '{curve}' is", dashes[curve])
        for other in dashes:
            check(curve == other or (dashes[curve], markers[curve]) != (dashes[other], markers[other]), f"{name}: '{curve}' looks like '{other}'")
    hollow = [layer for layer in layers if layer["mark"].get("fill") == "#ffffff" and "datum.published" in str(layer["transform"])]
    check(bool(hollow) == bool(published), name, "has hollow marks:", bool(hollow))
    space = "{http://www.w3.org/2000/svg}"
    root = tree.parse(picture).getroot()
    words = {"".join(text.itertext()) for text in root.iter(f"{space}text")}
    for curve in dashes:
        own = [mark for mark in root.iter() if mark.get("stroke") == colours[curve]]
        dotted = any(mark.get("stroke-dasharray") == "1.5 3.5" for mark in own)
        open_marks = any(mark.get("fill") == "#ffffff" for mark in own)
        check(dotted == open_marks == (curve in published), f"{picture}: '{curve}' is dotted: {dotted}, with hollow marks: {open_marks}")
        check(curve in words, f"{picture}: '{curve}' has no name")


def check_table(name, rows):
    """Whatever is published says from where; what was read by eye says so."""
    for row in rows:
        if "origin" in row:
            check((row["origin"] == "published") == bool(row["source"]), f"{name}: the source of {row}")
        if name == "dong_paths":
            check((row["published_init"] is None) == (row["order"] != "notebook"), f"{name}: the boxes are the notebook's: {row}")


def check_laws(tables):
    """Lines beside the measured ones that are our own laws: a half, and |lambda_2| of the bias, a layer; they end where the measured curve does."""
    for name, law_name, of, factor in (("causal_half_law", "law, 1/2 a layer", "causal, W_V = I", 0.5),
                                       ("relative_position_linear_rate", "law, |lambda_2| a layer", "bias -0.3 |i - j|", 0.693279)):
        own = [row["residual"] for row in tables[name] if row["series"] == law_name and row["origin"] == "computed"]
        measured = [row["residual"] for row in tables[name] if row["series"] == of]
        check(len(own) == len(measured) > 30 and own[-1] == measured[-1], name, "its law ends elsewhere")
        check(all(near(b / a, factor, 1e-6) for a, b in zip(own, own[1:])), name, "its law falls by another factor")


result = json.load(open(sys.argv[1], encoding="utf-8"))
check(result["figures"].keys() == PUBLISHED.keys(), "figures:", sorted(result["figures"]))
for name in PUBLISHED.keys() & result["figures"].keys():
    check_figure(name, result["figures"][name], result["tables"][name], f"{sys.argv[2]}/{name}.svg")
    check_table(name, result["tables"][name])
check_laws(result["tables"])
page = open(sys.argv[3], encoding="utf-8").read()
said = dict(re.findall(r"^\| `([a-z0-9.-]+)` \| (yes|none)\b", page, re.M))
check(said == {re.sub(r"-(\d)-(\d)$", r"-\1.\2", name.replace("_", "-")): "yes" if curves else "none" for name, curves in PUBLISHED.items() if name not in SECOND}, sys.argv[3], "says", said)
print("\n".join(wrong))
sys.exit(bool(wrong))
