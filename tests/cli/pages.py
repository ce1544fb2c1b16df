"""pages.py PAGE [all]: runs the shell blocks of a page, each in the folder it is started in, and compares the text blocks behind them.

A block ```sh is run by bash, with rankscope, MODEL and TEXT from the environment; without `all` only those that a ```text block follows.
Every number of a text block must be among those that its commands printed, within one per cent; every line of words alone, word for word.
"""
import os
import re
import subprocess
import sys

number = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")


def run(block):
    lines = [line for line in block.splitlines() if not re.match(r"(MODEL|TEXT)=", line)]
    shell = "set -e\nrankscope() { \"$RANKSCOPE\" \"$@\"; }\n" + "\n".join(lines)
    done = subprocess.run(["bash", "-c", shell], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "COLUMNS": "120"})
    return done.returncode, done.stdout, done.stderr


def missing(text, out):
    """Numbers and words of the text that are not in the output."""
    printed = [float(x) for x in number.findall(out)]
    for wanted in number.findall(text):
        value = float(wanted)
        if not any(abs(value - x) <= 0.01 * abs(value) + 1e-12 for x in printed):
            yield wanted
    flat = set(re.findall(r"[A-Za-z_+]{2,}", out))
    for word in re.findall(r"[A-Za-z_+]{2,}", text):
        if word not in flat:
            yield word


def main():
    page, everything = open(sys.argv[1], encoding="utf-8").read(), "all" in sys.argv[2:]
    blocks = re.findall(r"^```(sh|text)\n(.*?)^```$", page, re.S | re.M)
    wrong = ran = compared = 0
    for i, (kind, block) in enumerate(blocks):
        text = blocks[i + 1][1] if i + 1 < len(blocks) and blocks[i + 1][0] == "text" else None
        if kind != "sh" or not (text or everything):
            continue
        code, out, err = run(block)
        ran += 1
        if code:
            print(f"ended with {code}: {block}{err}")
            wrong += 1
        elif text:
            compared += 1
            lacking = list(missing(text, out))
            if lacking:
                print(f"does not print {lacking}:\n{block}{out}")
                wrong += 1
    print(f"{ran} blocks of {sys.argv[1]} ran, {compared} were compared")
    sys.exit(wrong > 0 or compared < 3)


main()
