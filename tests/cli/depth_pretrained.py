#!/usr/bin/env python3
"""depth_pretrained.py GOLDEN: results of dong-depth-pretrained in this folder, beside transformers' own classes and the paper's numbers.

Of all.json (whole windows) and quick.json (four) each measured state is GOLDEN's; each claim is recomputed from GOLDEN's curve and the
published one, and its verdict from both."""
import json
import math
import sys

golden, wrong = json.load(open(sys.argv[1], encoding="utf-8")), []
PANELS = {"bert": "dong_depth_pretrained", "albert": "dong_depth_pretrained_albert", "xlnet": "dong_depth_pretrained_xlnet"}
# First and last states as published, and where float32's rounding begins (13: nowhere).
ENDS = {"bert, san": (.6872, 2.0e-7, 7), "bert, san+mlp": (.6872, 2.3e-7, 6), "bert, san+skip": (.6872, .0743, 13), "bert, full": (.6872, .3096, 13),
        "albert, san, their code": (.8964, 1.7e-7, 8), "albert, san+mlp": (.8964, 3.5e-7, 6), "albert, san+skip, their code": (.8964, 1.437e-4, 13),
        "albert, full": (.8964, .5557, 13), "xlnet, san": (.7159, 8.910e-3, 13), "xlnet, san+mlp": (.7159, 1.681e-4, 13),
        "xlnet, san+skip": (.7159, .1026, 13), "xlnet, full": (.7159, .5131, 13)}
# san and san+mlp at state 5.
FIFTH = {"bert": (3.492e-3, 3.791e-5), "albert": (.0268, 2.119e-4), "xlnet": (.1638, .0195)}


def check(truth, *words):
    if not truth:
        wrong.append(" ".join(map(str, words)))


def read(name):
    return json.load(open(name, encoding="utf-8"))


def curves(result, origin):
    out = {}
    for panel in PANELS.values():
        for row in result["tables"][panel]:
            if row["origin"] == origin:
                out.setdefault(row["series"], {})[row["layer"]] = row["relative_residual_1inf"]
    return out


def gone(states):
    return next((l for l, v in enumerate(states) if v < 1e-6), 13)


def check_published(name):
    got = curves(read(name), "published")
    check(got.keys() == {f"{series}, published" for series in ENDS}, name, "has", sorted(got))
    for series, (first, last, state) in ENDS.items():
        states = [got[f"{series}, published"].get(l) for l in range(13)]
        check((states[0], states[12], gone(states)) == (first, last, state), name, series, states)


def check_measured(name, windows):
    """The largest difference, of what is above float64's rounding."""
    got, most = curves(read(name), "measured"), 0
    check(got.keys() == golden.keys() - {"windows"}, name, "has", sorted(got))
    for series in got:
        for l, wanted in enumerate(golden[series][windows]):
            measured = got[series].get(l, math.nan)
            check(abs(measured - wanted) <= 1e-10 * wanted + 2e-15, f"{name}: {series}, state {l}: {measured}, of transformers {wanted}")
            most = max(most, abs(measured - wanted) / wanted if wanted > 1e-9 else 0)
    print(f"{name}: largest relative difference {most:.1e}")


def measured_of(claim, windows):
    """What a claim's words say, of GOLDEN's curves."""
    about, _, what = claim.partition(": ")
    if what.startswith("decades"):
        series = "albert, san, their code" if about == "albert" else f"{about}, san"
        return math.log10(golden[series][windows][5] / golden[f"{about}, san+mlp"][windows][5]), math.log10(FIFTH[about][0] / FIFTH[about][1])
    states, (first, last, state) = golden[about][windows], ENDS[about]
    if what.startswith("first state"):
        return gone(states), state
    at = int(what.split()[-1])
    check(at in (0, 12), claim)
    pair = states[at], first if at == 0 else last
    return tuple(map(math.log10, pair)) if what.startswith("log10") else pair


def check_claims(name, windows):
    rows = read(name)["tables"]["claims"]
    check(len(rows) == 18, name, "has", len(rows), "claims")
    for row in rows:
        measured, published = measured_of(row["claim"], windows)
        # these networks are smaller than the published ones, and one is at float64's rounding at state 5
        near = 0.3 if "decades" in row["claim"] and row["claim"].startswith("albert") else 1e-7
        check(row["measured"] is not None and abs(row["measured"] - measured) < near, name, row, "of transformers", measured)
        check(abs(row["published"] - published) < 1e-12, name, row, "published", published)
        check(row["verdict"] == ("pass" if abs(measured - published) <= row["tolerance"] else "differs_from_paper"), name, row)
        check(row["tolerance"] <= abs(published) or row["tolerance"] <= 1, name, "nothing could leave", row)


def check_skipped(name, reasons):
    """All claims but those of models in `reasons` have the reason that stands there for them."""
    result = read(name)
    for row in result["tables"]["claims"]:
        which = row["claim"].split(":")[0].split(",")[0]
        if reasons[which] is None:
            check(row["verdict"] in ("pass", "differs_from_paper"), name, row)
        else:
            check(row["verdict"] == "skipped" and row["measured"] is None and reasons[which] in row["reason"], name, row)
    return result


check_published("none.json")
check_published("all.json")
check_measured("all.json", "all")
check_measured("quick.json", "quick")
check_claims("all.json", "all")
check_claims("quick.json", "quick")
absent = {"bert": "no BERT", "albert": "no ALBERT", "xlnet": "no XLNet"}
none = check_skipped("none.json", absent)
check(none["verdict"]["code"] == "claims_skipped" and not curves(none, "measured"), "no model:", none["verdict"])
others = check_skipped("others.json", {**absent, "albert": None})
messages = [f["message"] for f in others["findings"] if f["code"] == "model_unused" and f["count"] == 2]
check(any("gpt2" in m or "a second albert" in m for m in messages), messages)
short = check_skipped("short.json", {**absent, "bert": "12 layers"})
check({len(c) for c in curves(short, "measured").values()} == {3}, "a model of two layers has other states")
check_skipped("drawn-out.json", absent)
whole = read("all.json")
check([(m["published"], m["path"], m["layers"], m["samples"], m["tokens"], m["inputs"], m["trained"]) for m in whole["tables"]["dong_depth_models"]] ==
      [(p, n, 12, golden["windows"], 128, "text", True) for p, n in (("bert-base-cased", "bert"), ("albert-base-v2", "albert"), ("xlnet-base-cased", "xlnet"))],
      whole["tables"]["dong_depth_models"])
check(whole["model"]["family"] == "xlnet", whole["model"])
one, two = (curves(read(n), "measured") for n in ("quick.json", "quick-2.json"))
check(all(abs(one[s][l] - two[s][l]) <= 1e-6 * one[s][l] + 1e-15 for s in one for l in one[s]), "curves depend on --threads")
print("\n".join(wrong[:20]))
sys.exit(bool(wrong))
