#!/bin/bash
# claims.sh: runs every command of docs/theory/claims.md and compares what it says with the verdict stated there.
# shellcheck source=tests/cli/lib.sh
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
cp "$RS_SOURCE_DIR/share/page.txt" .
model=$(sh "$RS_SOURCE_DIR/scripts/fetch_model.sh" minilm 2>/dev/null) || model=
python3 - "$RS_SOURCE_DIR/docs/theory/claims.md" "$RANKSCOPE" "$model" <<'END' || note_failure "docs/theory/claims.md"
import json, re, shlex, subprocess, sys
page, program, model = open(sys.argv[1], encoding="utf-8").read(), sys.argv[2], sys.argv[3]
for name, text in re.findall(r"^```json (\S+)\n(.*?)^```$", page, re.S | re.M):
    open(name, "w").write(text)
results, wrong, ran, left_out, later = {}, [], 0, 0, 0


def run(command):
    words = shlex.split(command)
    assert words[0] == "rankscope", command
    words = [program] + [model if w == "MODEL" else w for w in words[1:]] + ["--quiet", "--json", "-"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    return json.loads(done.stdout)


def holds(result, said):
    """What a row says beside its code; None: nothing that this knows."""
    compared = re.search(r"`(\w+)\.(\w+) (<=|>=|<|>) (\S+)`", said)
    if compared:
        table, column, relation, number = compared.groups()
        number = float(number)
        values = [row[column] for row in result["tables"][table] if row[column] is not None]
        test = {"<": lambda x: x < number, ">": lambda x: x > number, "<=": lambda x: x <= number, ">=": lambda x: x >= number}[relation]
        return bool(values) and all(map(test, values)), values[:3]
    statement = re.search(r'"([^"]+)" `(\w+)`', said)
    if statement:
        status = {row["statement"]: row["status"] for row in result["tables"]["dong_verdicts"]}.get(statement[1])
        if status != statement[2]:
            return False, status
    finding = re.search(r"finding `(\w+)`", said)
    if finding:
        return finding[1] in {f["code"] for f in result["findings"]}, [f["code"] for f in result["findings"]]
    code = re.match(r"`(\w+)`", said)
    return bool(code) and result["verdict"]["code"] == code[1], result["verdict"]


for line in page.splitlines():
    cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
    if len(cells) != 4 or cells[0] in ("statement", "paper and statement") or set(cells[0]) <= set("-"):
        continue
    command, said = cells[2].strip("`"), cells[3]
    if command == "not yet":
        later += 1
        continue
    if "MODEL" in command and not model:
        left_out += 1
        continue
    try:
        if command not in results:
            results[command] = run(command)
        good, seen = holds(results[command], said)
        ran += 1
        if not good:
            wrong.append(f"{cells[0]}: {command}: {said}, but: {seen}")
    except (ValueError, KeyError, TypeError) as error:
        wrong.append(f"{cells[0]}: {command}: {error!r}")
print("\n".join(wrong))
print(f"{ran} statements shown by {len(results)} commands, {later} not yet, {left_out} left out for want of the model")
sys.exit(bool(wrong) or ran < 30)
END
finish
