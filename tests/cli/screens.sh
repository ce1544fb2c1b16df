#!/bin/sh
# screens.sh: what a person sees on real terminals of 80x24 and 120x40, on a dumb one, without colour, in LANG=C and in a pipe.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
rm -rf model && tiny_model model
minilm=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" minilm 2>err) || minilm=
echo "The tokens stay apart." >short.txt
cat >screens.py <<'END'
import fcntl, json, os, pty, re, struct, subprocess, sys, termios, unicodedata
program, sources, minilm = sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ""
wrong = []

def screen(words, columns, lines, **environment):
    """What the program writes to a terminal of that size."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "LC_ALL", "LANG")}
    env |= {"TERM": "xterm", "LC_ALL": "C.UTF-8"} | environment
    run = subprocess.Popen([program] + words, stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.DEVNULL, env=env)
    os.close(its)
    text = b""
    while True:
        try:
            part = os.read(own, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    if run.wait() != 0:
        wrong.append(f"{words} fails on a terminal")
    return text.decode().replace("\r\n", "\n")

def width(line):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)

def check(what, text, columns, colour, ascii):
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    if "\x1b" in plain:
        wrong.append(f"{what}: an escape sequence that is no colour")
    if ("\x1b" in text) != colour:
        wrong.append(f"{what}: {'no ' if colour else ''}colour")
    if ascii and not plain.isascii():
        wrong.append(f"{what}: more than ASCII")
    for line in plain.split("\n"):
        if width(line) > columns and len(line.split()) > 3:  # a path or a name is never broken
            wrong.append(f"{what}: {width(line)} columns: {line}")
    return plain

run = ["--random", "2", "--seq-len", "16"]
commands = [["scan", "model"], ["probe", "model", *run], ["certify", "model", *run], ["paths", "model", *run], ["compare", "model", "model"],
            ["scan", "model", "model"], ["probe", "model", "model", *run], ["certify", "model", "model", *run],
            ["lab", "list"], ["lab", "run", "causal-half-law"], ["scan", "model", "--table", "all", "--verbose"]]
for words in commands:
    name = " ".join(words)
    for columns, lines in (80, 24), (120, 40), (60, 24):
        check(f"{name} at {columns}x{lines}", screen(words, columns, lines), columns, True, False)
    check(f"{name} on a dumb terminal", screen(words, 80, 24, TERM="dumb"), 80, False, False)
    check(f"{name} with NO_COLOR", screen(words, 80, 24, NO_COLOR="1"), 80, False, False)
    check(f"{name} in LC_ALL=C", screen(words, 80, 24, LC_ALL="C"), 80, True, True)
    # COLUMNS rules; a pipe shows what a terminal of 80 columns without colour does.
    check(f"{name} with COLUMNS=100", screen(words, 80, 24, COLUMNS="100"), 100, True, False)
    env = {k: v for k, v in os.environ.items() if k != "COLUMNS"} | {"LC_ALL": "C.UTF-8"}
    piped = subprocess.run([program] + words, capture_output=True, text=True, env=env, check=True).stdout
    check(f"{name} in a pipe", piped, 80, False, False)

# The first screen of every command: all that it writes unasked, and the prompt below, fits the terminal.
model = minilm or "model"
page = ["--text", sources + "/share/page.txt"] if minilm else ["--random", "2", "--seq-len", "8"]
first = [["scan", model], ["probe", model, *page], ["probe", model, *page, "--variants", "dong"],
         ["certify", model, *page, "--samples", "2"], ["paths", model, *page, "--samples", "1"],
         ["compare", model, model], ["scan", model, model], ["probe", model, model, *page],
         ["certify", model, model, *page, "--samples", "2"],
         ["lab", "list"], ["lab", "run", "causal-half-law", "--quick"], ["lab", "run", "lambda-attention", "--quick"],
         ["lab", "run", "dong-perturbation-lemma", "--quick"], ["doctor"], ["explain"], ["explain", "layer"],
         ["explain", "effective_rank"], ["explain", "blas_ok"]]
if minilm:
    first += [["tokenize", model, *page], ["tokenize", model, "--text", "short.txt"]]
kinds = ({}, True, False), ({"TERM": "dumb"}, False, False), ({"NO_COLOR": "1"}, False, False), ({"LC_ALL": "C"}, True, True)
for words in first:
    name = "rankscope " + " ".join(words)
    for columns, lines in (80, 24), (120, 40):
        # what takes long is looked at once a size
        for environment, colour, ascii in kinds[: 1 if words[0] in ("certify", "paths", "lab", "doctor") else None]:
            text = check(f"{name} at {columns}x{lines} {environment}", screen(words, columns, lines, **environment), columns,
                         colour, ascii)
            if text.count("\n") + 1 > lines:
                wrong.append(f"{name}: {text.count(chr(10))} lines and a prompt on a screen of {lines}:\n{text}")

# What has no room is counted or named, and --verbose or --table has it.
def pieces(text, pattern):
    return [int(n) for n in re.findall(pattern, text)]
for words, table in (["lab", "run", "lambda-attention", "--quick"], "claims"), (["explain", "layer"], "words"):
    small, whole = screen(words, 80, 24), screen(words + ["--table", table], 80, 24)
    left = pieces(small, rf"and (\d+) more(?: rows)?: --table {table}")
    rows = [len(re.findall(r"(?m)^(?:\x1b\[0m)?(?:✓|~|=|✗|\x1b\[1m[^\n(]*\x1b\[0m \()", t)) for t in (small, whole)]
    if len(left) != 1 or rows[1] - rows[0] != left[0]:
        wrong.append(f"{words}: {rows[0]} of {rows[1]} rows, and it says that {left} are left out")
with open("claims.json", "w") as out:
    subprocess.run([program, "lab", "run", "dong-perturbation-lemma", "--quick", "--json", "-"], stdout=out, check=True)
missed = [c["claim"] for c in json.load(open("claims.json"))["tables"]["claims"] if c["verdict"] != "pass"]
small = re.sub(r"\s+", "", screen(["lab", "run", "dong-perturbation-lemma", "--quick"], 80, 24, NO_COLOR="1"))
for claim in missed:
    if re.sub(r"\s+", "", claim)[:20] not in small:
        wrong.append(f"a claim that does not hold is left out: {claim}")
if not missed:
    wrong.append("every claim holds: the test of those that do not says nothing")
small, whole = (screen(["probe", model, *page, "--variants", "dong", *more], 80, 24) for more in ([], ["--verbose"]))
if "not shown: components" not in small or "(components, 2 rows)" not in whole or "(components, 2 rows)" in small:
    wrong.append("the table of components is not shown by --verbose, or not named without it")
print("\n".join(wrong))
sys.exit(bool(wrong))
END
python3 screens.py "$RANKSCOPE" "$RS_SOURCE_DIR" ${minilm:+"$minilm"} >wrong.txt || note_failure "$(cat wrong.txt)"
finish
