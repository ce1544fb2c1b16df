"""corpus.py: the seeds of a fuzz target as a folder, for the scripts that make them.

    with corpus.opened("gguf") as folder:     # fuzz/corpus/gguf.tar.gz, unpacked
        (folder / "name").write_bytes(...)    # packed again at the end, the other seeds as they were
"""
import contextlib
import pathlib
import subprocess
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "corpus.sh"


@contextlib.contextmanager
def opened(target):
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([SCRIPT, "unpack", scratch, target], check=True)
        folder = pathlib.Path(scratch) / target
        folder.mkdir(exist_ok=True)
        yield folder
        subprocess.run([SCRIPT, "pack", scratch, target], check=True)
