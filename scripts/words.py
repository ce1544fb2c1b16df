#!/usr/bin/env python3
"""words.py PROGRAM [--write]: the tables of words and codes in docs/ say what `rankscope explain` says.

A page has `<!-- words: KIND [COMMANDS] -->` where a table is to stand and `<!-- end of words -->` behind it: all entries of KIND (word,
variant, finding, verdict), of a finding those whose commands are exactly COMMANDS. Without --write, a page that says anything else fails.
"""
import json
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
mark = re.compile(r"(<!-- words: (\w+)([^>]*) -->\n)(.*?)(<!-- end of words -->)", re.S)
listed = set()


def cell(text):
    return (text or "").replace("|", "\\|")


def table(words, kind, commands):
    rows = [w for w in words if w["kind"] == kind and (not commands or (w["where"] or "").split() == commands)]
    listed.update((kind, w["name"]) for w in rows)
    name = "`{}`" if kind != "word" else "{}"
    if kind == "finding":
        lines = ["| code | severity | it means | raised when | what to do |", "|---|---|---|---|---|"]
        keys = ("severity", "meaning", "rule", "todo")
    elif kind == "verdict":
        lines = ["| code | command | severity | it means | rule | what to do |", "|---|---|---|---|---|---|"]
        keys = ("where", "severity", "meaning", "rule", "todo")
    else:
        lines = [f"| {kind} | it means | definition |", "|---|---|---|"]
        keys = ("meaning", "rule")
    for word in rows:
        lines.append("| " + " | ".join([name.format(cell(word["name"]))] + [cell(word[key]) for key in keys]) + " |")
    return "\n".join(line.replace("|  |", "| |") for line in lines) + "\n"


def main():
    program, write = sys.argv[1], "--write" in sys.argv
    done = subprocess.run([program, "explain", "all", "--json", "-"], check=True, stdout=subprocess.PIPE)
    words = json.loads(done.stdout)["tables"]["words"]
    wrong = 0
    for page in sorted((root / "docs").rglob("*.md")):
        old = page.read_text(encoding="utf-8")
        new = mark.sub(lambda m: m[1] + "\n" + table(words, m[2], m[3].split()) + "\n" + m[5], old)
        if new == old:
            continue
        if write:
            page.write_text(new, encoding="utf-8")
        else:
            print(f"{page.relative_to(root)}: its words are not those of 'rankscope explain'; scripts/words.py PROGRAM --write")
            wrong += 1
    for word in words:
        if not word["kind"].startswith("column") and (word["kind"], word["name"]) not in listed:
            print(f"{word['name']} ({word['kind']}) stands on no page of docs/")
            wrong += 1
    sys.exit(wrong > 0)


main()
