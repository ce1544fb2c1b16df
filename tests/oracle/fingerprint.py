#!/usr/bin/env python3
"""The gate of a refactoring: do all commands still print the same numbers, bit for bit?

    python3 tests/oracle/fingerprint.py make OUT.json [--program build/rankscope] [--jobs N] [--only REGEX] [--model PATH ...] [--keep DIR]
    python3 tests/oracle/fingerprint.py compare OLD.json [NEW.json] [--allow FILE] [--every] [the options of make]

make runs every command over the small models of tests/golden (fingerprint_cases.py), with 1 and with 2 threads: some two minutes on two cores. It
keeps a hash of each column of each table (JSON and CSV), each field beside the tables, finding, figure, block of the terminal's text, part of the
HTML page and stored tensor. Left out is what names the run: `started seconds args machine`, run.pass_seconds, run.sweep_seconds, run.relevance_seconds and the version. What depends on the
number of threads is listed, but for the bytes that they worked in.

compare tells what changed, was removed or is new between two such files, or between one and a run that it makes itself; exit status 1 where
something that existed changed or was removed. FILE lists what may: a line `GLOB REASON` each, GLOB over CASE:PART/NAME (`*` crosses slashes), such as
`certify/*:tables/bounds/recursion* the new bound of 2.3 is tighter`. A line that allows nothing is named.

--only REGEX runs, and compares, the cases with such names alone. --keep DIR keeps what they wrote, DIR/CASE/THREADS, to set two programs side by
side. --every prints each column of each case. --model PATH adds a real checkpoint. Hashes of one machine mean nothing on another, where BLAS runs
other kernels: compare says so.
"""

import argparse
import collections
import concurrent.futures
import csv
import fnmatch
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import fingerprint_cases as catalogue

FORMAT = 1
ROWS = "(rows)"  # stands among a table's columns: how many rows it has, so that an empty one is there too
THREADS = ("1", "2")
# What names the run. run.pass_seconds is a clock; rankscope is the version, which a release changes and a refactoring does not.
NOT_NUMBERS = {"rankscope", "started", "seconds", "args", "machine"}
CLOCKS = {"run.pass_seconds", "run.sweep_seconds", "run.relevance_seconds"}
# Each thread has room of its own to work in: these two tell how much it was, and are no result.
GROWS_WITH_THREADS = {"meta/run.peak_activation_bytes", "meta/run.measure_bytes"}
VERSION = re.compile(r"rankscope \d+\.\d+\.\d+\S*")
EMBEDDED = re.compile(r'(<script type="application/json" id="(rankscope-result|rankscope-about)">)(.*?)</script>', re.S)
INHERITED = ("PATH", "LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "ASAN_OPTIONS", "UBSAN_OPTIONS")
HEADING = re.compile(r"^\S.* \((\w+), \d+ rows?\)$")
FINDINGS = re.compile(r"^(\d+ (note|warning|critical)|Nothing to report)")


# ---- from outputs to hashes: {part: {name: hash}} ----


def digest(value):
    data = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    return hashlib.blake2b(data, digest_size=6).hexdigest()


def loads(text):
    """JSON with each number as the text that stands there, behind a mark that tells it from a string: 1, 1.0 and "1" are three things."""
    mark = "\x01{}".format
    return json.loads(text, parse_float=mark, parse_int=mark, parse_constant=mark)


def columns(rows):
    """Each column of a table of the JSON, in the order of the columns; a row without the column has an empty list, which no cell is."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {ROWS: str(len(rows)), **{name: digest([row.get(name, []) for row in rows]) for name in names}}


def leaves(value, at=""):
    if not isinstance(value, dict):
        return {at: digest(value)}
    return {key: leaf for name, inner in value.items() for key, leaf in leaves(inner, f"{at}.{name}" if at else name).items()}


def numbered(findings):
    """Findings by their code, and their number among those of that code: one more changes how many there are, and no other."""
    seen = collections.Counter()
    out = {ROWS: str(len(findings))}
    for finding in findings:
        out[f"{finding['code']}.{seen[finding['code']]}"] = digest(finding)
        seen[finding["code"]] += 1
    return out


def parts_of_result(result):
    parts = {"meta": {}}
    for key, value in result.items():
        if key == "tables":
            parts.update({f"tables/{table}": columns(rows) for table, rows in value.items()})
        elif key == "findings":
            parts[key] = numbered(value)
        elif key == "figures":
            parts[key] = {name: digest(figure) for name, figure in value.items()}
        elif key not in NOT_NUMBERS:
            parts["meta"].update({name: leaf for name, leaf in leaves(value, key).items() if name not in CLOCKS})
    return parts


def parts_of_csv(folder):
    parts = {}
    for path in sorted(folder.glob("*")):
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
        parts[f"csv/{path.stem}"] = {ROWS: str(len(rows)), **{name: digest([row[i:i + 1] for row in rows]) for i, name in enumerate(header)}}
    return parts


def parts_of_page(text, result):
    """The page around its data, what it says about tables and columns, and whether its data are those of --json."""
    held = {match[2]: loads(match[3]) for match in EMBEDDED.finditer(text)}
    inside, about = held.get("rankscope-result"), held.get("rankscope-about", {"tables": {}, "figures": {}})
    around = VERSION.sub("rankscope", EMBEDDED.sub(r"\1", text))
    parts = {"html": {"page": digest(around), "result": "as --json" if inside == result else digest(inside)}}
    for kind, named in about.items():
        for name, words in named.items():
            described = {column["name"]: digest(column) for column in words.pop("columns", [])}
            parts[f"about/{kind}/{name}"] = {"(text)": digest(words), **described}
    return parts


def parts_of_text(text):
    """The terminal's text by the tables whose headings stand there; what goes before them and the findings behind them apart."""
    blocks, name = {}, "head"
    for line in text.splitlines():
        heading = HEADING.match(line)
        name = heading[1] if heading else "findings" if FINDINGS.match(line) else name
        blocks.setdefault(name, []).append(VERSION.sub("rankscope", line))
    return {"terminal": {name: digest(lines) for name, lines in blocks.items()}}


def parts_of_tensors(path):
    tensors, metadata = catalogue.read_safetensors(path.read_bytes())
    return {f"files/{path.stem}": {name: digest(json.dumps(value[:2]).encode() + value[2]) for name, value in tensors.items()},
            f"files/{path.stem}/metadata": {name: digest(VERSION.sub("rankscope", value)) for name, value in metadata.items()}}


# ---- one run ----


def command_line(case, threads):
    words = list(case.words)
    if "json" in case.outputs:
        words += ["--json", "out.json"]
    if "csv" in case.outputs:
        words += ["--csv", "tables"]
    if "html" in case.outputs:
        words += ["--html", "page.html"]
    for option in case.tensors:
        words += [option, f"{option.strip('-')}.safetensors"]
    if "terminal" in case.outputs and "--table" not in words:
        words += ["--table", "all"]
    elif not {"terminal", "summary"} & set(case.outputs):
        words += ["--quiet"]
    return words + (["--threads", threads] if case.threaded else [])


def environment(case, folder):
    """Nothing of the caller's that the program reads (RS_KERNELS, NO_COLOR, TERM, OPENBLAS_NUM_THREADS), except what chooses libraries."""
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    # Passive: two programs of two threads each on two cores are not to spin while they wait. No number depends on it.
    return {**kept, "HOME": str(folder), "LC_ALL": "C.UTF-8", "TERM": "dumb", "OMP_WAIT_POLICY": "passive", **dict(case.environment)}


def read_outputs(folder, ran):
    parts = {"run": {"exit": str(ran.returncode), "stdout": "text" if ran.stdout else "empty", "stderr": digest(VERSION.sub("rankscope", ran.stderr))},
             **parts_of_text(ran.stdout)}
    try:
        written, machine = read_files(folder)
        parts.update(written)
    except (ValueError, LookupError, struct.error) as error:  # a file that breaks its own format
        parts["run"]["unreadable"], machine = repr(error), None
    return {part: names for part, names in parts.items() if names}, machine


def read_files(folder):
    parts, result, machine = {}, None, None
    if (folder / "out.json").exists():
        result = loads((folder / "out.json").read_text(encoding="utf-8"))
        machine = result.get("machine")
        parts.update(parts_of_result(result))
    if (folder / "tables").exists():
        parts.update(parts_of_csv(folder / "tables"))
    if (folder / "page.html").exists():
        parts.update(parts_of_page((folder / "page.html").read_text(encoding="utf-8"), result))
    for path in sorted(folder.glob("*.safetensors")):
        parts.update(parts_of_tensors(path))
    return parts, machine


def run(program, scratch, keep, case, threads):
    """One command line in a folder of its own, in which paths are the same on every machine: the texts name them."""
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = pathlib.Path(name)
        (folder / "golden").symlink_to(catalogue.GOLDEN)
        (folder / "made").symlink_to(scratch / "made")
        ran = subprocess.run([program, *command_line(case, threads)], cwd=folder, env=environment(case, folder), stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, errors="surrogateescape", check=False)
        if keep:
            keep_outputs(pathlib.Path(keep) / case.name / threads, folder, ran)
        return read_outputs(folder, ran)


def keep_outputs(target, folder, ran):
    (folder / "stdout").write_text(ran.stdout, errors="surrogateescape")
    (folder / "stderr").write_text(ran.stderr, errors="surrogateescape")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target, ignore=lambda at, names: {"golden", "made"} & set(names))


def flat(parts):
    return {f"{part}/{name}": value for part, names in parts.items() for name, value in names.items()}


def run_case(program, scratch, keep, case):
    """What a case keeps: all hashes of its run with 1 thread, and those of 2 threads that are others (None: not there)."""
    first, machine = run(program, scratch, keep, case, THREADS[0])
    if not case.threaded:
        return {"command": " ".join(case.words), "parts": first}, machine
    second, one = flat(run(program, scratch, keep, case, THREADS[1])[0]), flat(first)
    others = {key: second.get(key) for key in {**one, **second} if second.get(key) != one.get(key)}
    return {"command": " ".join(case.words), "parts": first, "others_with_2_threads": others}, machine


# ---- make ----


def experiments(program):
    listed = subprocess.run([program, "lab", "list", "--json", "-"], capture_output=True, text=True, check=True)
    return [row["id"] for row in json.loads(listed.stdout)["tables"]["experiments"]]


def make(options):
    program = str(pathlib.Path(options.program).resolve())
    chosen = [case for case in catalogue.cases(experiments(program), options.model) if re.search(options.only, case.name)]
    if not chosen:
        sys.exit(f"--only {options.only}: no case has such a name")
    with tempfile.TemporaryDirectory(prefix="fingerprint.") as name, concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        scratch = pathlib.Path(name)
        catalogue.inputs(scratch / "made", options.model)
        keep = options.keep and str(pathlib.Path(options.keep).resolve())
        done = []
        for one in pool.map(functools.partial(run_case, program, scratch, keep), chosen, chunksize=2):
            done.append(one)
            if sys.stderr.isatty():
                print(f"\r{len(done)} of {len(chosen)} cases", end="", file=sys.stderr)
    machine = next((machine for _, machine in done if machine), {})
    return {"format": FORMAT, "only": options.only, "machine": {"cpu": machine.get("cpu"), "blas": machine.get("blas")},
            "cases": {case.name: kept for case, (kept, _) in zip(chosen, done)}}


def counts(fingerprint):
    keys = [key for case in fingerprint["cases"].values() for key in flat(case["parts"])]
    tables = sum(key.startswith(("tables/", "csv/")) and not key.endswith(ROWS) for key in keys)
    exits = collections.Counter(case["parts"]["run"]["exit"] for case in fingerprint["cases"].values())
    ended = ", ".join(f"{number} with {code}" for code, number in sorted(exits.items()))
    return f"{len(fingerprint['cases'])} cases (exit: {ended}); {len(keys)} hashes, {tables} of them of columns, each for 1 and 2 threads"


def print_threads(fingerprint, every):
    found = [(name, key) for name, case in fingerprint["cases"].items() for key in case.get("others_with_2_threads", {})
             if key not in GROWS_WITH_THREADS]
    if found:
        print_groups("not the same with 1 and with 2 threads", found, every)


# ---- compare ----


def hashes(fingerprint, only):
    """{(case, threads): {key: hash}}"""
    out = {}
    for name, case in fingerprint["cases"].items():
        if not re.search(only, name):
            continue
        one = flat(case["parts"])
        out[name, "1"] = one
        if "others_with_2_threads" in case:
            out[name, "2"] = {key: value for key, value in {**one, **case["others_with_2_threads"]}.items() if value is not None}
    return out


def by_part(keys, others):
    parts = collections.defaultdict(list)
    for key in keys:
        if key in others:
            parts[key.rpartition("/")[0]].append(key)
    return parts


def out_of_order(old, new):
    """The parts whose names stand in another order now: columns, findings."""
    a, b = by_part(old, new), by_part(new, old)
    return [f"{part}/(order)" for part in a if a[part] != b[part]]


def differences(old, new):
    """Lists of (case, key): changed, removed, new. A change that both numbers of threads show counts once."""
    changed, removed, fresh = {}, {}, {}
    for at in {**old, **new}:
        a, b = old.get(at, {}), new.get(at, {})
        for key in {**a, **b}:
            if a.get(key) != b.get(key):
                (fresh if key not in a else removed if key not in b else changed)[at[0], key] = None
        changed.update({(at[0], key): None for key in out_of_order(a, b)})
    return list(changed), list(removed), list(fresh)


def read_allowed(path):
    lines = [line.split(maxsplit=1) for line in pathlib.Path(path).read_text().splitlines() if line.strip() and not line.startswith("#")]
    bare = [words[0] for words in lines if len(words) == 1]
    if bare:
        sys.exit(f"{path}: no reason stands behind {', '.join(bare)}")
    return [(glob, re.compile(fnmatch.translate(glob))) for glob, _ in lines]


def drop_allowed(found, allowed, used):
    kept = []
    for name, key in found:
        by = next((glob for glob, pattern in allowed if pattern.match(f"{name}:{key}")), None)
        used[by] += 1
        if by is None:
            kept.append((name, key))
    return kept


def print_groups(title, found, every):
    """By command and part, with the columns and cases in which; each by itself, as a line of --allow names it, where every is set."""
    print(f"{title}: {len(found)}")
    parts = collections.defaultdict(lambda: ({}, {}))
    for name, key in found:
        (command, _, where), (part, _, column) = name.partition("/"), key.rpartition("/")
        for seen, word in zip(parts[command, part], (column, where)):
            seen[word] = None
    if every:
        print("".join(f"  {name}:{key}\n" for name, key in found), end="")
        return
    for (command, part), (names, where) in parts.items():
        print(f"  {command} {part}: {some(names, 8)}; in {some(where, 3)}")


def some(words, most):
    shown = ", ".join(list(words)[:most])
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"


def compare(old, new, options):
    if old["format"] != FORMAT or new["format"] != FORMAT:
        sys.exit(f"this fingerprint.py reads format {FORMAT}: make both files with it")
    if old["machine"] != new["machine"]:
        print(f"warning: made on two machines, whose numbers may differ for that alone: {old['machine']} and {new['machine']}")
    a, b = ({at: keys for at, keys in hashes(f, options.only).items() if all(re.search(g["only"], at[0]) for g in (old, new))} for f in (old, new))
    if not a:
        sys.exit("there is no case to compare")
    print(f"{len({name for name, _ in a})} cases compared")
    allowed, used = read_allowed(options.allow) if options.allow else [], collections.Counter()
    changed, removed, fresh = differences(a, b)
    changed, removed = drop_allowed(changed, allowed, used), drop_allowed(removed, allowed, used)
    for title, found in (("changed", changed), ("removed", removed), ("new", fresh)):
        print_groups(title, found, options.every)
    for glob, _ in allowed:
        print(f"allowed {used[glob]} by {glob}" if used[glob] else f"nothing was allowed by {glob}: take it out of {options.allow}")
    if changed or removed:
        first = (changed + removed)[0][0]
        print(f"the first is: {old['cases'][first]['command']}")
        print(f"to see what it writes: make /dev/null --only '^{re.escape(first)}$' --keep DIR, with each program")
    return int(bool(changed or removed))


# ---- command line ----


def load(path):
    return json.loads(pathlib.Path(path).read_text())


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    maker, comparer = actions.add_parser("make"), actions.add_parser("compare")
    maker.add_argument("out")
    comparer.add_argument("old")
    comparer.add_argument("new", nargs="?")
    comparer.add_argument("--allow")
    for action in (maker, comparer):
        action.add_argument("--every", action="store_true", help="a line for each column of each case")
        action.add_argument("--program", default=str(catalogue.ROOT / "build" / "rankscope"))
        action.add_argument("--jobs", type=int, default=os.cpu_count())
        action.add_argument("--only", default="")
        action.add_argument("--model", action="append", default=[])
        action.add_argument("--keep")
    return parser.parse_args()


def main():
    options = parse()
    if options.action == "compare" and options.new:
        sys.exit(compare(load(options.old), load(options.new), options))
    started = time.monotonic()
    made = make(options)
    print(f"{counts(made)}; {time.monotonic() - started:.0f} s")
    print_threads(made, options.every)
    if options.action == "compare":
        sys.exit(compare(load(options.old), made, options))
    pathlib.Path(options.out).write_text(json.dumps(made, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
