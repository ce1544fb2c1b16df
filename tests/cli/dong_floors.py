#!/usr/bin/env python3
"""dong_floors.py FOLDER: what dong-sorting, dong-convex-hull, dong-memorization and dong-circle printed with --quick (FOLDER/ID.json), against
closed forms and draws of its own.

Floors: order statistics in fractions; vertices of a hull by the widest gap of directions (a point is a vertex where it is half a turn or more),
not by a chain; the best answer for equal words by the law of their number. Circle: the error of one constant for both points."""
import json
import math
import random
import sys
from fractions import Fraction

wrong = []


def check(truth, *words):
    if not truth:
        wrong.append(" ".join(map(str, words)))


def at_least(i, n, p):
    return sum(math.comb(n, j) * p ** j * (1 - p) ** (n - j) for j in range(max(i, 0), n + 1)) if i <= n else Fraction(0)


def sorting(n=8, letters=10):
    """The best answer for a place, and for a place and the letter that stands there."""
    levels = [Fraction(v, letters) for v in range(letters + 1)]
    place = alone = Fraction(0)
    for i in range(1, n + 1):
        reached = [at_least(i, n, p) for p in levels]
        place += max(b - a for a, b in zip(reached, reached[1:]))
        for x in range(1, letters + 1):
            reached = [Fraction(0)] + [at_least(i - (x <= v), n - 1, levels[v]) for v in range(1, letters + 1)]
            alone += max(b - a for a, b in zip(reached, reached[1:]))
    return float(place / n), float(alone / n / letters)


def vertices(points):
    count = 0
    for x, y in points:
        angles = sorted(math.atan2(b - y, a - x) for a, b in points if (a, b) != (x, y))
        gaps = [b - a for a, b in zip(angles, angles[1:])] + [angles[0] + 2 * math.pi - angles[-1]]
        count += max(gaps) >= math.pi
    return count


def hull(n=10, samples=10000):
    draws = random.Random(5)
    shares = [vertices([(draws.random(), draws.random()) for _ in range(n)]) / n for _ in range(samples)]
    mean = sum(shares) / samples
    return mean, math.sqrt(sum((s - mean) ** 2 for s in shares)) / samples


def memorization(words=2000, shortest=32, longest=64):
    """Of a text of n words, the expected number that one answer for equal words gets right, over all texts."""
    harmonic = sum(1 / w for w in range(1, words + 1))
    commoner = [sum(max(j, m - j) * math.comb(m, j) for j in range(m + 1)) / 2 ** m for m in range(longest + 1)]
    right = tokens = 0.0
    for n in range(shortest, longest + 1):
        tokens += n
        for w in range(1, words + 1):
            p, law = 1 / w / harmonic, (1 - 1 / w / harmonic) ** n
            for m in range(1, n + 1):  # from one number's probability to the next
                law *= (n - m + 1) / m * p / (1 - p)
                right += law * commoner[m]
                if law < 1e-18 and m > n * p:
                    break
    return right / tokens


def one_constant(radius=0.3, angles=1000, samples=499):
    points = [complex(math.cos(t), math.sin(t)) for k in range(1, samples + 1) for t in
              (2 * math.pi * k / angles, 2 * math.pi * (k + 499) / angles)]
    return 2 * radius ** 2 * (1 - abs(sum(points) / len(points)) ** 2)


def load(name):
    with open(f"{sys.argv[1]}/{name}.json", encoding="utf-8") as file:
        return json.load(file)["tables"]


def number(tables, words, column="expected"):
    found = [row for row in tables["claims"] if row["claim"].startswith(words)]
    check(len(found) == 1, "claims that begin with", words, ":", len(found))
    return found[0][column] if found else math.nan


def lengths(tables, name, rates, alone):
    """A row for each rate and length; the sum of all lengths is the model; a token alone is not beaten without attention."""
    rows = tables[f"{name}_lengths"]
    check([(row["rate"], row["length"]) for row in rows] == [(rate, k) for rate in rates for k in range(7)], name, "has other rows")
    for row in rows:
        check(all(0 <= row[way] <= 1 for way in ("released", "theorem", "up_to", "floor", "model")), name, row)
        check((row["alone"] is not None) == alone, name, "token alone", row)
        if row["length"] == 6:
            check(abs(row["up_to"] - row["model"]) <= 0.002, name, "all lengths are not the model", row)
        if row["length"] == 0 and alone:
            check(max(row["released"], row["theorem"]) <= row["alone"] + 1e-12, name, "length 0 beats a token alone", row)
    runs = tables[f"{name}_runs"]
    check([row["rate"] for row in runs] == rates and {row["end"] for row in runs} <= {"trained", "diverged"}, name, "has other runs")


place, letter = sorting()
check(abs(place - 0.338818) < 5e-7, "sorting's floor", place)
found = load("dong-sorting")
check(abs(number(found, "floor: the commonest letter of each place, 1") - place) < 1e-8, "sorting, by place", place)
check(abs(number(found, "floor: in closed form", "computed") - place) < 1e-12, "sorting's closed form", place)
check(abs(number(found, "the best answer by a letter and its place", "computed") - letter) < 1e-9, "sorting, by letter", letter)
check(abs(number(found, "the same, counted", "measured") - letter) < 0.003, "sorting, by letter, counted")
lengths(found, "dong_sorting", ["1e-5", "1e-3"], True)

mean, error = hull()
found = load("dong-convex-hull")
own = number(found, "floor: in closed form", "computed")
check(abs(own - mean) < 4 * error, "the hull's floor", own, "drawn here", mean, error)
check(abs(number(found, "floor: the commoner label", "measured") - mean) < 4 * error + 0.002, "the hull's floor, counted", mean)
lengths(found, "dong_convex_hull", ["1e-5", "1e-3"], False)

found = load("dong-memorization")
ceiling = memorization()
check(abs(number(found, "ceiling:") - ceiling) < 1e-8, "memorisation's ceiling", ceiling)
check(abs(number(found, "ceiling:", "measured") - ceiling) < 0.002, "memorisation's ceiling, counted", ceiling)
lengths(found, "dong_memorization", ["3e-4", "1e-3"], True)

found = load("dong-circle")
check(abs(number(found, "one constant for both points: squared error", "computed") - one_constant()) < 1e-12, "one constant", one_constant())
rows = found["dong_circle_runs"]
check(len(rows) == 12 and all(row["width"] == 32 and row["diverged"] == 0 for row in rows), "circle:", len(rows), "networks")
check(all(0 <= row["stays"] <= 1 for row in rows), "circle: points that stay apart")
starts = [row for row in found["dong_circle"] if row["step"] == 0]
check(len(starts) == 6 and all(abs(row["apart"] - 1) < 1e-12 for row in starts), "circle: curves begin at 1")
print("\n".join(wrong[:20]))
sys.exit(bool(wrong))
