#!/bin/sh
# screens.sh: what a person sees on real terminals of 80x24 and 120x40, on a dumb one, without colour, in LANG=C and in a pipe.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
rm -rf model && tiny_model model
minilm=$("$RS_SOURCE_DIR/scripts/fetch_model.sh" minilm 2>err) || minilm=
cat >screens.py <<'END'
import fcntl, os, pty, re, struct, subprocess, sys, termios, unicodedata
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
commands = [["scan", "model"], ["probe", "model", *run], ["certify", "model", *run], ["paths", "model", *run],
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

# The picture and all that stands above it leave room for the findings.
if minilm:
    page = ["--text", sources + "/share/page.txt"]
    for words in ["scan", minilm], ["probe", minilm, *page], ["probe", minilm, *page, "--variants", "dong"], \
            ["certify", minilm, *page, "--samples", "2"], ["paths", minilm, *page, "--samples", "1"]:
        text = check(" ".join(words), screen(words, 80, 24), 80, True, False)
        above = re.split(r"\n\d+ (?:note|warning|critical finding)s?\n", text)[0].count("\n") + 1
        # a comparison of variants has a table of its own at the end, which may begin the next screen
        if above > (26 if "dong" in words else 21):
            wrong.append(f"{words[0]}: {above} lines above the findings of a screen of 24:\n{text}")
print("\n".join(wrong))
sys.exit(bool(wrong))
END
python3 screens.py "$RANKSCOPE" "$RS_SOURCE_DIR" ${minilm:+"$minilm"} >wrong.txt || note_failure "$(cat wrong.txt)"
finish
