#!/usr/bin/env python3
"""Times rankscope beside its peers in one run and prints ratios (our time over theirs; below 1 is faster).

Each case alternates us and the peer and compares medians, so that a machine whose speed drifts treats both alike.
The physical floor of the product case is the time that a plain dgemm, measured by `rankscope doctor` in the same run, needs for
2·d·r² operations a factor.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCOPE = os.path.join(ROOT, "build", "rankscope")
WORK = os.environ.get("RS_BENCH_DIR") or os.path.join(tempfile.gettempdir(), "rankscope-bench")
PYTHON = sys.executable
THREADS = len(os.sched_getaffinity(0))


def run(command, **env):
    """(seconds, standard output) of one run."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **env})
    out, err = process.communicate()
    seconds = time.perf_counter() - begin
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{err.decode()}")
    return seconds, out.decode()


def peak_memory(command):
    """Largest resident set of a run, and of it what is not the mapped checkpoint, in MiB (Linux)."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    own = total = 0
    while process.poll() is None:
        try:
            fields = dict(line.split(":", 1) for line in open(f"/proc/{process.pid}/status") if ":" in line)
            own = max(own, int(fields["RssAnon"].split()[0]))
            total = max(total, int(fields["VmRSS"].split()[0]))
        except (OSError, KeyError):
            pass
        time.sleep(0.02)
    return own / 1024, total / 1024


def scan(model, *options):
    return run([SCOPE, "scan", model, "--quiet", "--json", os.path.join(WORK, "out.json"), *options])[0]


def doctor():
    result = json.loads(run([SCOPE, "doctor", "--json", "-"])[1])
    rates = {(r["operation"], r["threads"]): r["gflops"] for r in result["tables"]["speed"]}
    return result["machine"]["blas"]["core"], rates[("dgemm", result["machine"]["threads"])]


def line(what, ours, peer, name):
    print(f"{what:<44} {ours:9.3f} s  {name:<28} {peer:9.3f} s  ratio {ours / peer:8.4f}", flush=True)


def numpy_core():
    """The best kernel of NumPy's own OpenBLAS for this processor, tried both ways."""
    code = ("import numpy as np, time; a = np.random.rand(1500, 1500); a @ a; t = time.perf_counter(); a @ a; a @ a; "
            "print(time.perf_counter() - t)")
    names = ["", "ZEN", "HASWELL", "SKYLAKEX"] if os.uname().machine == "x86_64" else [""]
    flags = open("/proc/cpuinfo").read() if os.path.exists("/proc/cpuinfo") else ""
    names = [n for n in names if n != "SKYLAKEX" or "avx512dq" in flags]
    times = {n: min(float(run([PYTHON, "-c", code], **({"OPENBLAS_CORETYPE": n} if n else {}))[1]) for _ in range(2))
             for n in names}
    return min(times, key=times.get)


def case_product(quick):
    layers = 8 if quick else 32
    model = os.path.join(WORK, f"llama7b-{layers}")
    if not os.path.exists(os.path.join(model, "config.json")):
        run([PYTHON, os.path.join(ROOT, "bench", "make_llama_shape.py"), model, "--layers", str(layers)])
    core, dgemm = doctor()
    best = numpy_core()
    env = {"OPENBLAS_CORETYPE": best} if best else {}
    scan(model)  # warm the page cache
    ours, plain, pool, batched = [], [], [], []
    for repeat in range(3):
        ours.append(scan(model) / layers)
        peer = json.loads(run([PYTHON, os.path.join(ROOT, "bench", "peers", "product_spectra_peer.py"), model, "--repeat", "1",
                               "--threads", str(THREADS), "--layer", str(repeat),
                               "--naive-heads", "1" if repeat == 0 else "0"], **env)[1])
        seconds = peer["seconds_a_layer"]
        plain.append(seconds["numpy_loop"])
        pool.append(min(seconds["torch_pool"], seconds.get("numpy_pool", 1e9)))
        batched.append(seconds["torch_batched"])
        if repeat == 0:
            naive = peer["naive_seconds_a_product"] * 64
    us = statistics.median(ours)
    _, again = doctor()
    floor = 4 * 32 * 2 * 4096 * 128**2 / (max(dgemm, again) * 1e9)
    print(f"LLaMA-2-7B shape, {layers} layers, bf16, QK and OV of every head; seconds a layer; {THREADS} threads; our OpenBLAS "
          f"kernel {core}, NumPy's {best or 'default'}; dgemm {dgemm:.0f} and {again:.0f} GFLOP/s")
    line("  all of table heads, a layer", us, floor, "dgemm floor (2 d r2 a factor)")
    line("", us, statistics.median(plain), "NumPy loop, same route")
    line("", us, min(statistics.median(pool), statistics.median(batched)), "best threaded NumPy/PyTorch")
    line("", us, naive, "4096x4096 products, svdvals")
    own, total = peak_memory([SCOPE, "scan", model, "--quiet"])
    print(f"  own memory at most {own:.0f} MiB (with the mapped file {total:.0f} MiB)")


def weightwatcher(model, repeat=1):
    out = run([PYTHON, os.path.join(ROOT, "bench", "peers", "weightwatcher_peer.py"), "--dir", model, "--threads", str(THREADS),
               "--repeat", str(repeat), "--no-mp-fit"])[1]
    result = json.loads(out)
    return min(find_seconds(result))


def find_seconds(value):
    """The list named seconds, wherever it stands in the peer's answer."""
    if isinstance(value, dict):
        if isinstance(value.get("seconds"), list):
            return value["seconds"]
        for inner in value.values():
            found = find_seconds(inner)
            if found:
                return found
    if isinstance(value, list):
        for inner in value:
            found = find_seconds(inner)
            if found:
                return found
    return None


def make_wide(folder):
    """A llama of width 1024 with 4096-wide MLPs: 1024x1024 and 4096x1024 matrices, two layers, float32 normals."""
    import numpy as np
    from safetensors.numpy import save_file
    rng = np.random.default_rng(0)
    tensors = {}
    for i in range(2):
        for name in "qkvo":
            tensors[f"model.layers.{i}.self_attn.{name}_proj.weight"] = (1024, 1024)
        for name, shape in (("gate", (4096, 1024)), ("up", (4096, 1024)), ("down", (1024, 4096))):
            tensors[f"model.layers.{i}.mlp.{name}_proj.weight"] = shape
    os.makedirs(folder, exist_ok=True)
    save_file({k: rng.standard_normal(s).astype(np.float32) / 32 for k, s in tensors.items()},
              os.path.join(folder, "model.safetensors"))
    json.dump({"model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 2, "num_attention_heads": 16,
               "intermediate_size": 4096, "vocab_size": 1000, "rms_norm_eps": 1e-5}, open(os.path.join(folder, "config.json"), "w"))


def case_matrices(quick):
    wide = os.path.join(WORK, "wide")
    if not os.path.exists(os.path.join(wide, "config.json")):
        make_wide(wide)
    models = [("MiniLM", run([os.path.join(ROOT, "scripts", "fetch_model.sh"), "minilm"])[1].strip()), ("width 1024, MLP 4096", wide)]
    print(f"--matrices all beside WeightWatcher's analyze() with its defaults (no Marchenko-Pastur fit, which ours includes); "
          f"{THREADS} threads; ours is the whole process")
    for name, model in models:
        ours, theirs = [], []
        for _ in range(2 if quick else 3):
            ours.append(scan(model, "--matrices", "all"))
            theirs.append(weightwatcher(model))
        line(f"  {name}", statistics.median(ours), statistics.median(theirs), "WeightWatcher")


def case_start(quick):
    model = run([os.path.join(ROOT, "scripts", "fetch_model.sh"), "minilm"])[1].strip()
    times = [scan(model) for _ in range(5 if quick else 21)]
    print(f"MiniLM, process start to finished JSON: median {statistics.median(times):.3f} s (target 0.3 s), "
          f"least {min(times):.3f} s, most {max(times):.3f} s")


def svg_plot(path, panels):
    """Side by side, panels (title, xs, ys): measured points joined by a line."""
    width, height, pad = 360, 240, 46
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{len(panels) * width}" height="{height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{len(panels) * width}" height="{height}" fill="white"/>']
    for panel, (title, xs, ys) in enumerate(panels):
        left, top = panel * width + pad, 24
        w, h, most = width - pad - 16, height - 24 - 36, max(ys) * 1.1
        def at(x, y):
            return left + w * x / max(xs), top + h * (1 - y / most)
        parts.append(f'<text x="{left}" y="14">{title}</text>')
        parts.append(f'<path d="M{left},{top}V{top + h}H{left + w}" fill="none" stroke="#444"/>')
        for x in xs:
            px, _ = at(x, 0)
            parts.append(f'<text x="{px:.1f}" y="{top + h + 14}" text-anchor="middle">{x}</text>')
        for y in (0, most / 2, most):
            _, py = at(0, y)
            parts.append(f'<text x="{left - 4}" y="{py + 4:.1f}" text-anchor="end">{y:.3g}</text>')
        points = " ".join("{:.1f},{:.1f}".format(*at(x, y)) for x, y in zip(xs, ys))
        parts.append(f'<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-width="2"/>')
        for x, y in zip(xs, ys):
            parts.append('<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="#1f5fa8"/>'.format(*at(x, y)))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write("\n".join(parts + ["</svg>\n"]))


def image(name):
    return os.path.join(ROOT, "docs", "images", name)


def case_layers(quick):
    layers = 8 if quick else 32
    model = os.path.join(WORK, f"llama7b-{layers}")
    if not os.path.exists(os.path.join(model, "config.json")):
        run([PYTHON, os.path.join(ROOT, "bench", "make_llama_shape.py"), model, "--layers", str(layers)])
    scan(model)
    xs = [n for n in (1, 2, 4, 8, 16, 24, 32) if n <= layers]
    seconds, memory = [], []
    for n in xs:
        span = f"0-{n - 1}"
        seconds.append(statistics.median(scan(model, "--layers", span) for _ in range(3)))
        memory.append(peak_memory([SCOPE, "scan", model, "--quiet", "--layers", span])[0])
        print(f"  {n:3d} layers {seconds[-1]:8.3f} s  {seconds[-1] / n:7.3f} s a layer  {memory[-1]:7.1f} MiB own memory", flush=True)
    svg_plot(image("layers.svg"), [("seconds by layers", xs, seconds), ("own memory, MiB by layers", xs, memory)])


def case_measures(quick):
    """Measures of attention and token matrices beside the same columns in PyTorch, on one thread and on all."""
    model = run([os.path.join(ROOT, "scripts", "fetch_model.sh"), "minilm"])[1].strip()
    peer = os.path.join(ROOT, "bench", "peers", "measures_peer.py")
    width = json.loads(run([PYTHON, peer, "make", model, WORK])[1])["width"]
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "bench_measures"])
    ours = os.path.join(ROOT, "build", "bench", "bench_measures")
    print("MiniLM over one text of 128 tokens; seconds a matrix; PyTorch batched in float32, ours in float64")
    for what, data, columns in (("attention", "attention", 128), ("tokens", "tokens", width), ("spectral", "tokens", width)):
        for threads in sorted({1, THREADS}):
            us, them = [], []
            for _ in range(3 if quick else 9):
                task = [what, os.path.join(WORK, data + ".f32"), "128", str(columns), str(threads), "3"]
                us.append(json.loads(run([ours, *task], OMP_NUM_THREADS=str(threads))[1]))
                them.append(json.loads(run([PYTHON, peer, *task])[1]))
            if abs(us[0]["mean"] / them[0]["mean"] - 1) > 1e-4:
                sys.exit(f"{what}: ours measured {us[0]['mean']}, the peer {them[0]['mean']}")
            seconds = [statistics.median(r["seconds"] for r in runs) for runs in (us, them)]
            print(f"  {what + ', ' + str(threads) + ' threads':<24} {seconds[0] * 1e3:8.3f} ms  PyTorch {seconds[1] * 1e3:8.3f} ms  "
                  f"ratio {seconds[0] / seconds[1]:.3f}", flush=True)


class Peer:
    """A script of bench/peers, kept running so that its passes can alternate with ours."""

    def __init__(self, model, script="forward_peer.py", threads=THREADS, options=()):
        self.process = subprocess.Popen([PYTHON, os.path.join(ROOT, "bench", "peers", script), model, "--threads", str(threads), *options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.about = json.loads(self.process.stdout.readline())

    def seconds(self, *sizes):
        print(*sizes, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def forward(model, samples, tokens, *options, threads=THREADS):
    """What bench_forward says of one pass (after one to warm up)."""
    out = run([os.path.join(ROOT, "build", "bench", "bench_forward"), model, "--samples", str(samples), "--tokens", str(tokens),
               "--repeat", "1", "--threads", str(threads), *options])[1]
    return json.loads(out)


def forward_model(kind, script="forward_peer.py"):
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "bench_forward"])
    model = os.path.join(WORK, f"{kind}-forward")
    if not os.path.exists(os.path.join(model, "config.json")):
        run([PYTHON, os.path.join(ROOT, "bench", "peers", script), "--make", kind, model])
    return model


def beside_torch(model, samples, tokens, repeats, peer):
    """Medians of alternating passes: ours, sdpa, eager; and what ours said of the median one."""
    rounds = [(forward(model, samples, tokens), peer.seconds(samples, tokens)) for _ in range(repeats)]
    ours = sorted((r[0] for r in rounds), key=lambda r: r["seconds"])[repeats // 2]
    best_rate = max(r[0]["layer_gemm_gflops"] for r in rounds)
    return ours, best_rate, *(statistics.median(r[1][name] for r in rounds) for name in ("sdpa", "eager"))


def case_bert(quick):
    model, repeats = forward_model("bert"), 3 if quick else 7
    peer = Peer(model)
    ours, rate, sdpa, eager = beside_torch(model, 32, 128, repeats, peer)
    peer.close()
    print(f"BERT-base shape, float32, 32 texts of 128 tokens, {THREADS} threads; our OpenBLAS kernel {ours['core']}; PyTorch "
          f"{peer.about['torch']} ({'; '.join(peer.about['blas'])})")
    line("  a pass, no taps", ours["seconds"], ours["gflop"] / rate, "floor: products at sgemm's rate")
    print(f"    {ours['gflops']:.0f} GFLOP/s of {rate:.0f} that plain sgemm does on the shapes of a layer: "
          f"{100 * ours['gflops'] / rate:.0f} % (target 80 %); activations at most {ours['peak_mib']:.1f} MiB")
    line("", ours["seconds"], sdpa, "PyTorch sdpa")
    line("", ours["seconds"], eager, "PyTorch eager")


def case_tables(quick):
    """What the tables of `probe` cost on top of a pass: BERT-base shape, 32 random texts of 128 tokens in one batch.

    Every figure is of the first pass of a process, whose memory is cold."""
    model, binary = forward_model("bert"), os.path.join(ROOT, "build", "rankscope")
    kinds = {"no taps": None, "tokens, no spectral ranks": ["--no-attention", "--no-spectral"], "tokens": ["--no-attention"],
             "tokens, median centre": ["--no-attention", "--residual-centre", "median"],
             "tokens, LP centre": ["--no-attention", "--residual-centre", "lp"],
             "attention": ["--no-spectral"], "tokens and attention": []}
    seconds = {kind: [] for kind in kinds}
    out = os.path.join(WORK, "tables.json")
    for _ in range(3 if quick else 7):
        for kind, options in kinds.items():
            if options is None:
                seconds[kind].append(forward(model, 32, 128)["first"])
                continue
            run([binary, "probe", model, "--random", "32", "--batch", "32", "--no-loss", "--quiet", "--json", out,
                 "--threads", str(THREADS), *options])
            with open(out) as f:
                seconds[kind].append(json.load(f)["run"]["pass_seconds"])
    plain = statistics.median(seconds["no taps"])
    for kind, times in seconds.items():
        line(f"  {kind}", statistics.median(times), plain, "a pass without taps")


def case_prefill(quick):
    model, repeats = forward_model("llama"), 3 if quick else 5
    peer = Peer(model)
    print(f"LLaMA shape (d 1024, 12 layers, 16 heads over 8, 8 of 64, MLP 2816), float32, one text, {THREADS} threads; "
          f"PyTorch {peer.about['torch']}")
    for tokens in (1, 128, 2048):
        ours, rate, sdpa, eager = beside_torch(model, 1, tokens, repeats, peer)
        line(f"  {tokens} tokens", ours["seconds"], ours["gflop"] / rate, "floor: products at sgemm's rate")
        line("", ours["seconds"], sdpa, "PyTorch sdpa")
        line("", ours["seconds"], eager, "PyTorch eager")
    peer.close()
    for tokens in (1, 2, 8, 16, 64, 128, 512, 1024, 2048) if not quick else (1, 128, 512):
        ours = forward(model, 1, tokens)
        print(f"  {tokens:5d} tokens {1e3 * ours['seconds'] / tokens:9.3f} ms a token  {ours['gflops']:7.1f} GFLOP/s  activations "
              f"{ours['peak_mib']:7.1f} MiB", flush=True)


def case_states(quick):
    """Mamba and Mamba-2 of the 130M shapes: a pass against sgemm of its maps alone, transformers and a tuned torch layer.

    The best of the rounds counts on every side, as the maps' own rate is a best one."""
    rounds, longest = (1, 4096) if quick else (3, 65536)
    for kind in ("mamba", "mamba2"):
        model = forward_model(kind, "states_peer.py")
        for threads in (THREADS, 1):
            peer = Peer(model, "states_peer.py", threads)
            for tokens in (2048, 512):
                runs = [(forward(model, 1, tokens, threads=threads), peer.seconds(tokens)) for _ in range(rounds)]
                ours, maps = (min(r[0][name] for r in runs) for name in ("seconds", "maps"))
                print(f"{kind}, {tokens} tokens, {threads} threads; our OpenBLAS kernel {runs[0][0]['core']}; PyTorch "
                      f"{peer.about['torch']}, transformers {peer.about['transformers']}")
                line("", ours, maps, "sgemm of the maps alone")
                for name in runs[0][1]:
                    line("", ours, min(r[1][name] for r in runs), name)
            peer.close()
        pairs = [(forward(model, 1, 2048, "--mixing"), forward(model, 1, 2048)) for _ in range(rounds)]
        line("", *(min(r[i]["seconds"] for r in pairs) for i in (0, 1)), "the same pass, table mixing not asked for")
        few, many = (forward(model, 1, tokens) for tokens in (1024, longest))
        print(f"{kind}, a token at {longest} tokens {1e3 * many['seconds'] / longest:.3f} ms, at 1024 "
              f"{1e3 * few['seconds'] / 1024:.3f} ms; activations {many['peak_mib']:.0f} MiB", flush=True)


def case_sweep(quick):
    """41 skip strengths over 8 samples of 128 tokens, Mamba-2 130M's shape, beside the matrix products of as many passes at sgemm's rate.

    Points whose growth float32 does not hold run in float64, at half that rate: how many do is said. The certificates are not part of the
    passes."""
    model, points = forward_model("mamba2", "states_peer.py"), 5 if quick else 41
    rate = max(forward(model, 8, 128)["layer_gemm_gflops"] for _ in range(1 if quick else 3))
    seconds, out = run([SCOPE, "probe", model, "--random", "8", "--seq-len", "128", "--threads", str(THREADS), "--no-spectral", "--no-loss",
                        "--sweep", f"lambda=-20:20:{points}", "--quiet", "--json", "-"])
    result = json.loads(out)
    ran, ends = result["run"], result["tables"]["sweep_ends"]
    wide, proved = sum(r["precision"] != "f32" for r in ends), sum(r["certified_residual"] is not None for r in ends)
    gflop = ran["sweep_matrix_flops"] / 1e9
    print(f"Mamba-2 130M's shape, {points} skip strengths side by side, 8 x 128 tokens, {THREADS} threads; {wide} points in float64")
    line("  the sweep's passes", ran["sweep_seconds"], gflop / rate, f"floor: {points} passes' products at sgemm's rate")
    print(f"    {gflop / ran['sweep_seconds']:.0f} GFLOP/s of {rate:.0f} that plain sgemm does on the shapes of a layer; weights decoded to "
          f"{ran['weight_bytes_decoded'] / 2**20:.0f} MiB")
    print(f"    the whole run {seconds:.1f} s, with a pass of its own and the certificates of {proved} points from the weights")


def gradient(model, samples, tokens, loss, *options):
    """What bench_gradient says of one round (after one to warm up)."""
    out = run([os.path.join(ROOT, "build", "bench", "bench_gradient"), model, "--samples", str(samples), "--tokens", str(tokens), "--loss",
               loss, "--repeat", "1", "--threads", str(THREADS), *options])[1]
    return json.loads(out)


def gradient_peaks(model, samples, tokens, loss):
    """Largest memory of a process that takes one step: ours with its mapped weights, with --recompute, PyTorch sdpa's, in MiB."""
    command = [os.path.join(ROOT, "build", "bench", "bench_gradient"), model, "--samples", str(samples), "--tokens", str(tokens), "--loss", loss,
               "--threads", str(THREADS), "--once"]
    peer = Peer(model, "gradient_peer.py", options=("--loss", loss, "--attention", "sdpa"))
    theirs = peer.seconds(samples, tokens)["peak_mib"]
    peer.close()
    return peak_memory(command)[1], peak_memory([*command, "--recompute"])[1], theirs


def case_gradients(quick):
    """A pass and its way back: norms of all gradients, and all of them written out as a trainer would, beside PyTorch's step."""
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "bench_gradient"])
    for kind, samples, tokens, loss in (("bert", 8, 128, "random"), ("gpt2", 1, 1024, "lm")):
        model = forward_model(kind, "gradient_peer.py")
        peer = Peer(model, "gradient_peer.py", options=("--loss", loss))
        rounds = [(gradient(model, samples, tokens, loss), peer.seconds(samples, tokens)) for _ in range(3 if quick else 7)]
        peer.close()
        ours, theirs = ({name: statistics.median(r[i][name] for r in rounds) for name in rounds[0][i] if name != "core"} for i in (0, 1))
        print(f"{kind}'s shape, {samples} x {tokens} tokens, loss {loss}, {THREADS} threads; our OpenBLAS kernel {rounds[0][0]['core']}; PyTorch "
              f"{peer.about['torch']}")
        line("  forward and back, gradients written", ours["step"], ours["floor"], "floor: 3 passes at sgemm's rate")
        line("", ours["step"], theirs["sdpa"], "PyTorch sdpa")
        line("", ours["step"], theirs["eager"], "PyTorch eager")
        line("  the way back alone", ours["step"] - ours["forward"], ours["forward"], "a pass")
        line("  norms instead", ours["norms"], ours["step"], "gradients written")
        line("  one layer's tape", ours["recompute"], ours["norms"], "every layer's")
        print("    most memory: {:.0f} MiB, one layer's tape {:.0f}, PyTorch sdpa {:.0f}".format(*gradient_peaks(model, samples, tokens, loss)))


class Trainer(Peer):
    """bench_train, kept running: as a peer, it answers a number of steps with what they took."""

    def __init__(self, task, threads, *settings):
        self.process = subprocess.Popen([os.path.join(ROOT, "build", "bench", "bench_train"), task, str(threads), *settings],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = json.loads(self.process.stdout.readline())


def case_train(quick):
    """Steps of training: ours and PyTorch's in turns, each at one thread and at all."""
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "bench_train"])
    text = os.path.join(WORK, "letters.txt")
    with open(text, "w", encoding="ascii") as f:
        f.write("".join(chr(97 + i * i % 23) for i in range(100000)))
    gpt2 = ["data.text=" + text, "data.length=256", "batch=4", "model=" + forward_model("gpt2", "gradient_peer.py"), "optimizer.lr=6e-4",
            "schedule.kind=constant"]
    for kind, task, settings, steps in (("recall", "associative-recall", [], 100), ("gpt2", "char-lm", gpt2, 1)):
        runs = {}
        for threads in sorted({1, THREADS}):
            runs["ours", threads] = Trainer(task, threads, *settings)
            for name, options in (("eager", ()), ("fused", ("--fused",))):
                runs[name, threads] = Peer(kind, "train_peer.py", threads, options)
        for one in runs.values():
            one.seconds(steps)  # to warm up
        rounds = [{key: one.seconds(steps) for key, one in runs.items()} for _ in range(3 if quick else 7)]
        for one in runs.values():
            one.close()
        took = {key: statistics.median(r[key]["seconds"] for r in rounds) / steps for key in runs}
        print(f"training, {kind}, float32; our OpenBLAS kernel {runs['ours', 1].about['core']}, {runs['ours', 1].about['parameters']} numbers; "
              f"PyTorch {runs['eager', 1].about['torch']}")
        for threads in sorted({1, THREADS}):
            rate = rounds[0]["ours", threads]["gflop"] / steps / took["ours", threads]
            print(f"  a step, {threads} thread(s): {1e3 * took['ours', threads]:.2f} ms, {rate:.0f} GFLOP/s")
            for name in ("eager", "fused"):
                line("", took["ours", threads], took[name, threads], f"PyTorch {name}, as many threads")
        for name in ("eager", "fused"):
            line("  our best", min(took["ours", t] for t in (1, THREADS)), min(took[name, t] for t in (1, THREADS)), f"PyTorch {name}'s best")
        peaks = {key[0]: rounds[-1][key]["peak_mib"] for key in runs}
        print("    most memory: {ours:.0f} MiB, PyTorch eager {eager:.0f}, fused {fused:.0f}".format(**peaks))


def case_sizes(quick):
    """A step of training against its numbers of layers and of tokens: runs of all sizes take turns, so that a busy minute slows them all."""
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "bench_train"])
    text = os.path.join(WORK, "letters.txt")
    with open(text, "w", encoding="ascii") as f:
        f.write("".join(chr(97 + i * i % 23) for i in range(100000)))
    shape = ["data.text=" + text, "model.d_model=256", "model.heads=4", "schedule.kind=constant"]
    layers = [(n, [*shape, f"model.depth={n}", "data.length=128", "batch=8"]) for n in (1, 2, 4, 8, 16)]
    tokens = [(128 * n, [*shape, "model.depth=2", "data.length=128", f"batch={n}"]) for n in (2, 4, 8, 16, 32)]
    panels = []
    for what, sizes in (("layers", layers), ("tokens", tokens)):
        runs = {n: Trainer("char-lm", THREADS, *settings) for n, settings in sizes}
        for one in runs.values():
            one.seconds(1)  # to warm up
        rounds = [{n: one.seconds(2)["seconds"] / 2 for n, one in runs.items()} for _ in range(3 if quick else 9)]
        for one in runs.values():
            one.close()
        xs, ys = list(runs), [1e3 * statistics.median(r[n] for r in rounds) for n in runs]
        slope, start = statistics.linear_regression(xs, ys)
        for x, y in zip(xs, ys):
            print(f"  {x:5d} {what:7} {y:9.2f} ms a step, {y / (start + slope * x):.3f} of the line {start:.2f} + {slope:.4g} a {what[:-1]}", flush=True)
        panels.append((f"ms a step by {what}", xs, ys))
    svg_plot(image("steps.svg"), panels)


def case_startup(quick):
    model = run([os.path.join(ROOT, "scripts", "fetch_model.sh"), "minilm"])[1].strip()
    forward_model("bert")
    times = [run([os.path.join(ROOT, "build", "bench", "bench_forward"), model, "--start"])[0] for _ in range(5 if quick else 21)]
    print(f"MiniLM, process start until the first layer has run on 8 tokens: median {1e3 * statistics.median(times):.1f} ms "
          f"(target 50 ms), least {1e3 * min(times):.1f} ms")


def case_memory(quick):
    """Activations of a pass against what two layers hold: 2 (Q, K, V, mixed, state in, state out) and one panel of the MLP."""
    model = forward_model("bert")
    for samples in (1, 8) if quick else (1, 8, 32, 64):
        ours = forward(model, samples, 128)
        rows, d, panel = samples * 128, 768, min(samples * 128, 1024)
        bound = 4 * (2 * 6 * rows * d + panel * 3072) / 2**20
        print(f"  {samples:3d} texts of 128 tokens: activations {ours['peak_mib']:7.1f} MiB, two layers' worth {bound:7.1f} MiB, "
              f"ratio {ours['peak_mib'] / bound:.2f}", flush=True)


def case_san(quick):
    """A batch of small random attention networks beside PyTorch, drawn and run, and run alone; and both against their floors."""
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "bench_san"])
    task = ["200" if quick else "1000", "12", "32", "32", "4", str(THREADS), "3"]
    ours, peer = os.path.join(ROOT, "build", "bench", "bench_san"), os.path.join(ROOT, "bench", "peers", "san_peer.py")
    rounds = [(json.loads(run([ours, *task], OMP_NUM_THREADS=str(THREADS))[1]), json.loads(run([PYTHON, peer, *task])[1]))
              for _ in range(3 if quick else 7)]
    if not 0.5 < rounds[0][0]["residual"] / rounds[0][1]["residual"] < 2:
        sys.exit(f"ours collapses to {rounds[0][0]['residual']}, the peer to {rounds[0][1]['residual']}")
    us, them = ({key: statistics.median(r[i][key] for r in rounds) for key in ("all", "passes", "draws") if key in r0}
                for i, r0 in enumerate(rounds[0]))
    core, rate = doctor()
    print(f"{task[0]} networks of 12 layers, 32 tokens, 32 features, 4 heads, float64, {THREADS} threads; PyTorch {rounds[0][1]['torch']}")
    line("  drawn and run", us["all"], them["all"], "PyTorch, batched")
    line("  run", us["passes"], them["passes"], "PyTorch, batched")
    line("  floor of the products", us["passes"], rounds[0][0]["flops"] / rate / 1e9, f"flops at dgemm's rate ({core})")
    print(f"    drawing alone {us['draws']:.3f} s: {1e9 * us['draws'] * THREADS / rounds[0][0]['normals']:.2f} ns a normal and thread")


def case_trials(quick):
    """Monte Carlo trials of a small post-norm network beside PyTorch, one by one and batched, draws included; and beside their floor."""
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "bench_trials"])
    ours, peer = os.path.join(ROOT, "build", "bench", "bench_trials"), os.path.join(ROOT, "bench", "peers", "trials_peer.py")
    for heads in ("1", "8"):
        task = ["100" if quick else "400", "32", "16", "64", heads, "64", str(THREADS)]
        rounds = [(json.loads(run([ours, *task, "3"], OMP_NUM_THREADS=str(THREADS))[1]), json.loads(run([PYTHON, peer, *task, "1"])[1]))
                  for _ in range(1 if quick else 3)]
        us, them = ({key: statistics.median(r[i][key] for r in rounds) for key in r0 if key not in ("torch", "batched" if i == 0 else "")}
                    for i, r0 in enumerate(rounds[0]))
        if abs(us["log_value"] - them["log_value"]) > 0.3 or abs(us["rho"] - them["rho"]) > 0.05:
            sys.exit(f"ours has ln gV {us['log_value']} and rho {us['rho']}, the peer {them['log_value']} and {them['rho']}")
        print(f"{task[0]} trials, 32 layers, 16 tokens, 64 features, {heads} heads, float64, {THREADS} threads; PyTorch {rounds[0][1]['torch']}")
        line("  forward and back, drawn", us["trials"], them["loop"], "PyTorch, one by one (12 x)")
        line("  forward and back, drawn", us["trials"], them["batched"], "PyTorch, bmm, 100 at once (4 x)")
        line("  forward and back, drawn", us["trials"], us["floor"], "products at dgemm's rate and draws (1 / 1.7)")
        line("  forward and back, drawn", us["trials"], us["engine"], "through the engine")
        print(f"    {us['ns_per_normal']:.2f} ns a normal and thread, {us['dgemm'] / 1e9:.0f} GFLOP/s of dgemm")
    phase_diagram("8" if quick else "32", ours)


def phase_diagram(side, ours):
    """Depths to 128 by strengths of attention, 16 trials a cell: the networks beside what products that are left and draws take, and the command."""
    law = "normal(0, 2/(fan_in + fan_out))"
    arch = {"depth": 128, "d_model": 64, "heads": 4, "seq_len": 16, "norm": "post", "mlp": "relu", "mlp_width": 256, "init": dict.fromkeys(("wq", "wk", "wv", "wo", "w1", "w2"), law)}
    os.makedirs(WORK, exist_ok=True)
    path = os.path.join(WORK, "phase.json")
    with open(path, "w") as file:
        json.dump(arch, file)
    us = json.loads(run([ours, "16", "128", "16", "64", "4", "256", str(THREADS), "1", side], OMP_NUM_THREADS=str(THREADS))[1])
    command = run([SCOPE, "predict", path, "--grid", f"depth=1:128:{side},branch_mixer=0:2:{side}", "--trials", "16", "--threads", str(THREADS), "--json", "-"])[0]
    print(f"phase diagram, {side} x {side} cells of 1 to 128 layers, 16 trials, 16 tokens, 64 features, float64, {THREADS} threads")
    line("  networks", us["grid"], us["floor"], "products at dgemm's rate and draws")
    if side == "32":
        line("  the command, with theory and the screen", command, 30.0, "what it may take")


def case_theory(quick):
    """Theory of one architecture, there and back, beside the least that its exponentials and sums take."""
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "bench_theory"])
    ours = os.path.join(ROOT, "build", "bench", "bench_theory")
    for kind, layers, tokens, times in (("plain", "1000", "128", "5"), ("causal", "100", "128", "10"), ("rotary", "10", "128", "3")):
        rounds = [json.loads(run([ours, kind, layers, tokens, times])[1]) for _ in range(1 if quick else 3)]
        us = {key: statistics.median(r[key] for r in rounds) for key in ("layer", "floor", "dgemm", "exps")}
        print(f"theory, {kind}, {tokens} tokens, one thread: {1e3 * us['layer']:.3f} ms a layer")
        if us["floor"] > 0:
            line("  a layer, there and back", us["layer"], us["floor"], "exponentials and sums at their rates")
    print(f"    {1e-9 * us['exps']:.2f} exponentials a ns, {us['dgemm'] / 1e9:.0f} GFLOP/s of dgemm")


def case_residual(quick):
    """A pass of a small network in the residual precision beside one in the digits that a plain pass needs for the same."""
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "bench_residual"])
    ours, peer = os.path.join(ROOT, "build", "bench", "bench_residual"), os.path.join(ROOT, "bench", "peers", "residual_peer.py")
    rounds = [(json.loads(run([ours, "6", "2000"])[1]), json.loads(run([PYTHON, peer, "6", "1500", "3"])[1])) for _ in range(3 if quick else 7)]
    us, them = (statistics.median(r[i]["seconds"] for r in rounds) for i in (0, 1))
    first = rounds[0]
    print(f"attention alone, 6 layers, 5 tokens, 4 features, one thread; log10 of the residual {first[0]['log10']:.0f}, the peer's "
          f"{first[1]['log10']:.0f}")
    print(f"  a pass {1e6 * us:.1f} us, mpmath {first[1]['mpmath']} ({first[1]['backend']}) in 1500 digits {them:.3f} s: {them / us:.0f} times faster")


def case_session(quick):
    """A scan of weights in memory, asked again and again, beside the least that its spectra cost and torch's svdvals of the products."""
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "bench_session"])
    ours, peer = os.path.join(ROOT, "build", "bench", "bench_session"), os.path.join(ROOT, "bench", "peers", "svdvals_peer.py")
    us = json.loads(run([ours, str(THREADS), "7" if quick else "31"])[1])
    them = json.loads(run([PYTHON, peer, str(THREADS), "2" if quick else "6"])[1])
    print(f"BERT-base shape in memory, 288 head products, float32, {THREADS} threads, each call after the first")
    line("  rs_session_scan", us["scan"], us["floor"], "Grams, Cholesky and dgesdd alone, in float64")
    line("  rs_session_scan", us["scan"], us["floor_in_cache"], "the same of one product, in cache, 288 times")
    line("  rs_session_scan", us["scan"], 288 * them["seconds"], f"torch {them['torch']} svdvals, one product x 288")


def case_report(quick):
    """The report of a model of 48 layers of 64 heads in a headless Chromium: when its figures are drawn, beside what a reader waits for."""
    chromium = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
    if not chromium or not shutil.which("node"):
        print("report: skipped: no Chromium or no Node found; make deps-test installs them")
        return
    model, sample = os.path.join(WORK, "report-48x64"), os.path.join(WORK, "sample.html")
    if not os.path.exists(os.path.join(model, "model.safetensors.index.json")):
        run([PYTHON, os.path.join(ROOT, "bench", "make_llama_shape.py"), model, "--layers", "48", "--d", "1024", "--heads", "64"])
    scanned = os.path.join(WORK, "scan.html")
    scan(model, "--html", scanned)
    run(["cmake", "--build", os.path.join(ROOT, "build"), "--target", "make_sample"])
    run([os.path.join(ROOT, "build", "tests", "make_sample"), sample, "48", "64"])
    page = json.loads(run(["node", os.path.join(ROOT, "bench", "report_page.mjs"), chromium, "3" if quick else "9", scanned, sample])[1])
    print(f"reports of 48 layers of 64 heads, {page['browser']}, headless")
    for name, path, times in zip(("scan", "sample"), (scanned, sample), page["reports"]):
        print(f"  {name}: {os.path.getsize(path) / 1e6:.1f} MB, laid out after {times['laid out'] / 1e3:.2f} s")
        line(f"  {name}, first figure", times["first figure"] / 1e3, 2, "the wait allowed")
        line(f"  {name}, all figures", times["all figures"] / 1e3, 6, "the wait allowed")


def nudged(model):
    """A copy of a float32 checkpoint of one file whose numbers differ by one bit of 2^-8 of their size each."""
    folder = os.path.join(WORK, "nudged")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(os.path.join(model, "config.json"), folder)
    with open(os.path.join(model, "model.safetensors"), "rb") as f:
        raw = bytearray(f.read())
    start = 8 + int.from_bytes(raw[:8], "little")
    raw[start + 1::4] = bytes(b ^ 0x80 for b in raw[start + 1::4])
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(raw)
    return folder


def case_compare(quick):
    """compare of weights beside a scan of one: MiniLM and a nudged copy (target 1 s), layers of the shape of LLaMA 7B (7 scans)."""
    minilm = run([os.path.join(ROOT, "scripts", "fetch_model.sh"), "minilm"])[1].strip()
    large = []
    for seed in ("1", "2"):
        large.append(os.path.join(WORK, "compare-" + seed))
        run([sys.executable, os.path.join(ROOT, "bench", "make_llama_shape.py"), large[-1], "--layers", "2" if quick else "8", "--seed", seed])
    for name, a, b, target in ("MiniLM", minilm, nudged(minilm), "1 s"), ("layers of LLaMA 7B", *large, "7 scans"):
        scan(a), scan(b)
        rounds = [(scan(a), run([SCOPE, "compare", a, b, "--quiet", "--json", os.path.join(WORK, "out.json")])[0]) for _ in range(3 if quick else 9)]
        one, both = (statistics.median(r[i] for r in rounds) for i in (0, 1))
        print(f"  {name}: scan {one:.3f} s, compare {both:.3f} s, {both / one:.1f} scans (target {target})", flush=True)


CASES = {"start": case_start, "product": case_product, "matrices": case_matrices, "layers": case_layers, "bert": case_bert, "tables": case_tables,
         "prefill": case_prefill, "states": case_states, "sweep": case_sweep, "gradients": case_gradients, "train": case_train, "sizes": case_sizes, "startup": case_startup,
         "memory": case_memory, "measures": case_measures, "san": case_san, "trials": case_trials, "theory": case_theory, "residual": case_residual, "session": case_session,
         "report": case_report, "compare": case_compare}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 layers instead of 32, fewer repeats")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    args = parser.parse_args()
    unknown = [name for name in args.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]}; there are {', '.join(CASES)}")
    os.makedirs(WORK, exist_ok=True)
    if shutil.disk_usage(WORK).free < 6 << 30 and not args.quick:
        sys.exit(f"{WORK} needs 6 GB free; set RS_BENCH_DIR or use --quick")
    for name in args.cases or CASES:
        CASES[name](args.quick)


if __name__ == "__main__":
    main()
