"""ExecuTorch's `executor_runner` and ONNX Runtime's `onnxruntime_perf_test` are in no wheel: programs that stand in.

They run models for real, with EdgeSweep's own C++ runners, and take the flags and print the form of the tools' sources.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

_RUN = '''
import array
import json
import os
import subprocess
import sys

RUNNER, DIMS, LAYOUT, REST = {runner!r}, {dims!r}, {layout!r}, {rest!r}


def run(model, threads, iterations, *evaluation):
    """The events of EdgeSweep's runner, by name."""
    argv = [RUNNER, "--model", model, "--backend", "cpu", "--engine", "none", "--warmup", "0", "--warmup-seconds", "0"]
    argv += ["--iter", str(max(iterations, 1)), "--min-seconds", "0", "--max-seconds", "600", "--threads", threads]
    argv += ["--cpus", "all", "--input-dims", ",".join(map(str, DIMS)), "--input-type", "float"]
    argv += ["--memory-format", LAYOUT, "--reuse-input", "1", *REST, *evaluation]
    ended = subprocess.run(argv, capture_output=True)
    found = {{}}
    for line in ended.stdout.splitlines():
        event = json.loads(line)
        found.setdefault(event["event"], []).append(event)
    if "end" not in found:
        sys.exit(f"Load model from {{model}} failed: {{found.get('error', ended.stderr)}}")
    return found


def samples(found):
    return [ns for event in found["sample"] for ns in event["ns"]]
'''

_EXECUTOR_RUNNER = '''#!{python} -S
"""Stands in for ExecuTorch's executor_runner of release 1.0, as it is on a phone: it logs to Android's log, and tells
the time of all executions together."""
{run}
FLAGS = dict(word[2:].split("=", 1) for word in sys.argv[1:])
if unknown := FLAGS.keys() - {{"model_path", "inputs", "output_file", "num_executions", "cpu_threads"}}:
    sys.exit(f"ERROR: unknown command line flag '{{min(unknown)}}'")


def log(words):
    subprocess.run(["log", "-p", "i", "-t", "ExecuTorch", words], check=True)


threads, count = FLAGS.get("cpu_threads", "-1"), int(FLAGS.get("num_executions", "1"))
log(f"Resetting threadpool with num threads = {{threads}}")
log(f"Model file {{FLAGS['model_path']}} is loaded.")
found = run(FLAGS["model_path"], threads, count - 1)
times = [found["first_inference"][0]["ns"], *samples(found)][:count]
log(f"Model executed successfully {{count}} time(s) in {{sum(times) / 1e6:f}} ms.")
log("1 outputs: ")
if "inputs" in FLAGS:
    # The tool takes the bytes as the file's own layout has them, EdgeSweep's runner always takes NCHW.
    values = array.array("f", open(FLAGS["inputs"], "rb").read())
    n, c, h, w = DIMS
    if LAYOUT == "channels_last":
        size = h * w
        order = (c * (i * size + k) + j for i in range(n) for j in range(c) for k in range(size))
        values = array.array("f", [values[place] for place in order])
    given = FLAGS["output_file"] + ".nchw"
    with open(given, "wb") as file:
        values.tofile(file)
    run(FLAGS["model_path"], threads, 1, "--eval-inputs", given, "--eval-outputs", FLAGS["output_file"] + "-0.bin")
    os.remove(given)
print("OutputX 0: tensor(sizes=[1, 10], [...])")
'''

_PERF_TEST = '''#!{python} -S
"""Stands in for ONNX Runtime's onnxruntime_perf_test: prints its summary, and appends to its file of results."""
{run}
words, flags, names = iter(sys.argv[1:]), {{}}, []
for word in words:
    if word in ("-e", "-m", "-r", "-x", "-o", "-S"):
        flags[word] = next(words)
    elif word.startswith("-") and word != "-I":
        sys.exit("See 'onnxruntime_perf_test --help'.")
    elif word != "-I":
        names.append(word)
model, results = names
count = int(flags["-r"])
found = run(model, flags["-x"], count)
seconds = [ns / 1e9 for ns in samples(found)][:count]
total, peak = sum(seconds), found["ran"][0]["rss_peak_bytes"]
print(f"Setting intra_op_num_threads to {{flags['-x']}}")
print(f"Session creation time cost: {{found['load'][0]['load_ns'] / 1e9:.6g}} s")
print(f"First inference time cost: {{found['first_inference'][0]['ns'] // 1000000}} ms")
print(f"Total inference time cost: {{total:.6g}} s\\nTotal inference requests: {{count}}")
print(f"Average inference time cost total: {{1e3 * total / count:.6f}} ms")
print(f"Total inference run time: {{total:.6g}} s\\nNumber of inferences per second: {{count / total:.6g}} ")
print(f"Avg CPU usage: 50 %\\nPeak working set size: {{peak}} bytes")
with open(results, "a") as file:
    for number, one in enumerate(seconds):
        file.write(f"run,{{one:.6g}},{{peak}},50,{{number}}\\n")
'''


def executor_runner(path: Path, runner: str, dims: Sequence[int], layout: str) -> None:
    """`runner`: EdgeSweep's own for ExecuTorch; `dims` and `layout` are those of the files that it is given."""
    _write(path, _EXECUTOR_RUNNER, runner, dims, layout, [])


def perf_test(path: Path, runner: str, dims: Sequence[int]) -> None:
    """`runner`: EdgeSweep's own for ONNX Runtime."""
    _write(path, _PERF_TEST, runner, dims, "contiguous_format", ["--graph-optimization", "all"])


def _write(path: Path, program: str, runner: str, dims: Sequence[int], layout: str, rest: Sequence[str]) -> None:
    run = _RUN.format(runner=runner, dims=tuple(dims), layout=layout, rest=list(rest))
    path.write_text(program.format(python=sys.executable, run=run), encoding="utf-8")
    path.chmod(0o755)
