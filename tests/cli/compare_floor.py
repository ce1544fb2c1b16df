"""compare_floor.py F32.json F64.json: the same probe in two precisions. What float32 does not mark as rounding float64 must confirm; what
float64 cannot tell from rounding float32 must mark. Only Python's own library."""
import json
import sys

FLOOR = 8 * 2 ** -24

single, double = (
    {(r["variant"], r["layer"], r["site"]): r for r in json.load(open(path))["tables"]["tokens"]}
    for path in sys.argv[1:3])
assert single.keys() == double.keys()
marked = above = failures = 0
for key, row in single.items():
    true = double[key]
    value, reference = row["relative_residual"], true["relative_residual"]
    marked += row["at_floor"]
    above += row["at_floor"] and value > FLOOR
    # Just above the floor rounding still adds its part.
    if not row["at_floor"] and not abs(value - reference) <= max(FLOOR, 0.25 * reference):
        print(f"FAILED: {key} is {value} in float32 and not marked as rounding, {reference} in float64")
        failures += 1
    if row["at_floor"] and reference > 1e-5:
        print(f"FAILED: {key} is {value} in float32 and marked as rounding, {reference} in float64")
        failures += 1
print(f"{marked} of {len(single)} values are rounding, {above} of them above the floor")
assert marked > 0
sys.exit(failures > 0)
