#!/bin/sh
# lab_killed.sh: experiments of many runs that are killed (kill -9) behind some of them: with --db what was finished is taken up, not trained
# again, and claims and tables are those of a run that nothing broke off.
. "$RS_SOURCE_DIR/tests/cli/lib.sh"
command -v python3 >/dev/null 2>&1 || { echo "python3 is not here"; exit 77; }
cat >killed.py <<'END'
import contextlib, pathlib, sqlite3, subprocess, sys, time
program, wrong = sys.argv[1], []

def kept(path):
    """[(place, numbers)] of the runs that are there; a run that is written again gets another place."""
    if not path.exists():
        return []
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        try:
            return db.execute("SELECT rowid, numbers FROM lab_runs ORDER BY rowid").fetchall()
        except sqlite3.OperationalError:  # it is being made
            return []

def words(name, folder, *more):
    return [program, "lab", "run", name, "--quick", "--threads", "1", "--quiet", "--csv", f"{name}-{folder}", *more]

def kill_behind(name, path, runs):
    """How many runs are there when it has been killed behind so many."""
    run = subprocess.Popen(words(name, "killed", "--db", path), stdout=subprocess.DEVNULL)
    while run.poll() is None and len(kept(path)) < runs:
        time.sleep(0.005)
    run.kill()
    run.wait()
    return kept(path)

for name, behind, total in ("dong-sorting", (1,), 2), ("dong-circle", (2, 7), 12), ("dong-ensembles", (1,), 2):
    path = pathlib.Path(name + ".db")
    for _ in range(9):  # where this program is not given the time to kill, it tries again
        path.unlink(missing_ok=True)
        first = [kill_behind(name, path, runs) for runs in behind][-1]
        if len(first) < total:
            break
    if not behind[-1] <= len(first) < total:
        wrong.append(f"{name}: {len(first)} of {total} runs when it was killed behind {behind[-1]}")
    subprocess.run(words(name, "resumed", "--db", path), check=True)
    subprocess.run(words(name, "whole"), check=True)
    after = kept(path)
    if after[: len(first)] != first or len(after) != total:
        wrong.append(f"{name}: {len(first)} runs were there, then {len(after)}; those that were there are others now")
    def tables():
        return {path.name: path.read_bytes() for path in pathlib.Path(f"{name}-resumed").glob("*.csv")}
    before = tables()
    for table in pathlib.Path(f"{name}-whole").glob("*.csv"):
        if table.read_bytes() != before.get(table.name):
            wrong.append(f"{name}: another {table.name}")
    # All are there: nothing is trained, so that other numbers in the file are other numbers in the tables.
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE lab_runs SET numbers = zeroblob(length(numbers))")
        db.commit()
    subprocess.run(words(name, "resumed", "--db", path), check=True)
    own = name.replace("-", "_") + ".csv"
    if tables()[own] == before[own]:
        wrong.append(f"{name} trains again what is there")
print("\n".join(wrong))
sys.exit(bool(wrong))
END
rm -rf ./*.db ./*-killed ./*-resumed ./*-whole
python3 killed.py "$RANKSCOPE" >wrong.txt || note_failure "$(cat wrong.txt)"
finish
