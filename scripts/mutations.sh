#!/bin/sh
# mutations.sh: what tests/oracle/mutate_*.py make wrong must stand in the source as they name it, or they test nothing.
set -eu
cd "$(dirname "$0")/.."
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=tests/oracle python3 - <<'END'
import pathlib
import sys
import mutate_certificates, mutate_gradients, mutate_lab

named = [(what, file, old) for m in (mutate_certificates, mutate_gradients) for _, what, file, old, *_ in m.MUTATIONS]
named += [(experiment, f"src/lab/{file}.c", old) for experiment, file, old, *_ in mutate_lab.MUTATIONS]
texts = {file: pathlib.Path(file).read_text(encoding="utf-8") for _, file, _ in named}
gone = [f"{file}: no '{old}', which the mutation '{what}' changes" for what, file, old in named if old not in texts[file]]
print("\n".join(gone) if gone else f"{len(named)} mutations stand in the source")
sys.exit(bool(gone))
END
