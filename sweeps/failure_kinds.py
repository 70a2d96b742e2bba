"""The kinds of failures, each with its reason and what to do. The only list; a test compares it with the code.

A kind is the stable word in `Failed`, `BuildError`, `DeviceError` and in the reports of runners. The details are in the
message of each failure.
"""

from collections.abc import Collection
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Kind:
    why: str
    """The reason of the failure."""
    todo: str
    """What to do about the failure."""


_BUILDING = {
    "accuracy_lost": Kind(
        "the built file answers far worse than the model that it was made from",
        "use more calibration images (data.calibration.images), another quantization or granularity in grids, or "
        "keep fp32",
    ),
    "already_quantized": Kind("the model contains int8 layers that are packed for one engine", "give the fp32 model"),
    "bad_calibration": Kind("int8 needs calibration images, and none can be used", "correct data.calibration"),
    "bad_data": Kind(
        "calibration or evaluation data cannot be loaded",
        "correct data: in the sweep file; the next run tries it again",
    ),
    "bad_model": Kind(
        "the model's code or weights cannot be loaded, or its code ends its process, never ends, or takes all memory",
        "correct models: (source, arguments, weights, input_shape), and try it with edgesweep plan --check; the "
        "next run tries it again",
    ),
    "crashed": Kind(
        "the process ended without a result, by a signal or an exit code",
        "the message and the log have its last words: remove the cause",
    ),
    "crashed_on_load": Kind(
        "the built file crashed when it was loaded on this computer", "try another capture or format in grids"
    ),
    "crashed_on_run": Kind(
        "the built file crashed when it was checked on this computer", "try another capture, format or backend in grids"
    ),
    "data_dependent": Kind(
        "the model branches on its input, and a trace records one path only", "write capture: [script]"
    ),
    "engine_not_in_force": Kind(
        "int8 was prepared for another engine than the one that was active", "a bug: please report it"
    ),
    "exception": Kind("the build ended with an error that EdgeSweep does not know", "the message has its first words"),
    "interface_not_possible": Kind(
        "the model does not begin or end with layers that can be int8", "write interface: [core], or [inside] for nnapi"
    ),
    "invalid_output": Kind(
        "the built file's answers have another shape or are not finite", "check precision, qengine and data.calibration"
    ),
    "low_sqnr": Kind(
        "the built file's answers are far from the model's: of int8 they are drowned in quantization noise, of fp32 "
        "or fp16 a step of the build or a kernel computes something else",
        "of int8: use more calibration images or another quantization, or keep fp32; of fp32 and fp16: write fuse: "
        "[false] or optimize: [false], or try another capture or runtime",
    ),
    "malformed_nnapi_model": Kind(
        "the NNAPI part of the file cannot be read", "build it again: delete the artifact, then run"
    ),
    "nnapi_conversion": Kind(
        "PyTorch's converter to NNAPI does not accept the model",
        "replace the part that the message names, or use backend: [cpu]",
    ),
    "no_cmake": Kind("`edgesweep runner build` needs CMake 3.18 or newer", "install it"),
    "no_library": Kind(
        "`edgesweep runner build` cannot use the library that was named",
        "name the runtime's AAR, or the folder of its build, with --library",
    ),
    "no_ndk": Kind(
        "`edgesweep runner build` found no Android NDK", "install one, and name its folder in ANDROID_NDK_HOME"
    ),
    "not_for_phones": Kind(
        "the program that was compiled cannot run on phones of this kind", "see edgesweep explain android-runtime"
    ),
    "not_placed": Kind(
        "the program that was compiled cannot be written where phones get it from", "set EDGESWEEP_RUNNERS"
    ),
    "no_compiler": Kind("a checker must be compiled, and there is no C++ compiler", "install one: apt-get install g++"),
    "not_exportable": Kind(
        "torch.export cannot follow the model's code: control flow that depends on data, or shapes that change",
        "rewrite the part that the message names, or leave onnxruntime and executorch out of runtime",
    ),
    "too_large": Kind(
        "the model is larger than one ONNX file can be", "leave onnxruntime out of runtime for this model"
    ),
    "runtime_broken": Kind(
        "the installed versions of a runtime's libraries cannot run what they export",
        "install releases that pair, as edgesweep toolchain list says; the next run tries them again",
    ),
    "runtime_missing": Kind(
        "the library of the runtime is not where its runner looks for it",
        "put it there as edgesweep explain runtimes says",
    ),
    "no_reference": Kind("there is no program here that stands in for this backend", "measure on a device that has it"),
    "no_torch": Kind("torch is not installed", "edgesweep doctor has the line that installs it"),
    "not_buildable": Kind("this variant cannot be built at all", "take it out of grids"),
    "not_bundled": Kind(
        "inputs cannot be put into the file for PyTorch's own benchmark tool",
        "put EdgeSweep's runner on the device, which needs none",
    ),
    "not_capturable": Kind(
        "a part of the model can be neither traced nor scripted", "rewrite its forward, see the message"
    ),
    "not_compilable": Kind("the C++ compiler refuses a program of EdgeSweep", "install g++ 9 or newer"),
    "not_fusable": Kind(
        "a layer cannot be folded into the one before it", "write fuse: [false] for fp32, or change the layer"
    ),
    "not_loadable": Kind("the model cannot be loaded", "correct models: in the sweep file"),
    "not_optimizable": Kind("optimize_for_mobile fails on this model", "write optimize: [false], or another backend"),
    "not_possible": Kind("this combination cannot exist", "take it out of grids"),
    "not_quantizable": Kind("a part of the model cannot be quantized", "remove the part that never runs, or keep fp32"),
    "not_savable": Kind("torch cannot save the model in this format", "try the other format, pt or ptl"),
    "not_scriptable": Kind(
        "torch.jit.script does not understand a part of the model's code",
        "try capture: [trace] or [mixed], or rewrite that part in what TorchScript knows of Python",
    ),
    "not_traceable": Kind(
        "torch.fx, which fusing and int8 need, or torch.jit.trace cannot trace the model",
        "use precision: [fp32] with fuse: [false], or capture: [script]; or take branches on the input's values out "
        "of forward()",
    ),
    "nothing_to_fill": Kind("no layer is so narrow that channels could be filled up", "write layout: [nchw]"),
    "nothing_to_quantize": Kind(
        "dynamic quantization changes linear layers only, and there are none", "write quantization: [static]"
    ),
    "out_of_memory": Kind(
        "the process needed more memory than there was",
        "close programs, use fewer images or a smaller batch in input_shape",
    ),
    "too_few_calibration_images": Kind(
        "calibration_images in grids is more than data.calibration has", "lower it, or give more"
    ),
    "trace_differs": Kind("the traced model answers otherwise than the model", "write capture: [script]"),
    "unsupported_operator": Kind(
        "the backend has no kernel for an operator of the model", "replace that operator, or use backend: [cpu]"
    ),
}

_RUNNING = {
    "backend_missing": Kind("the program on the device was made without this backend", "put one there that has it"),
    "bad_arguments": Kind(
        "the program on the device does not know a flag: it is of another version", "compile the runner anew"
    ),
    "bad_batch": Kind("a batch asked for something that cannot be run", "a bug: please report it with the message"),
    "bad_cpus": Kind("the CPUs that were asked for are not there", "correct cpus in grids"),
    "bad_eval_inputs": Kind(
        "the evaluation images did not arrive whole", "run --retry-failed; check the device's storage"
    ),
    "bad_output": Kind("the model answers something else than one tensor", "wrap it so that it returns its logits"),
    "bad_reference": Kind(
        "the library that stands in for the backend cannot be used", "delete the cache of compiled programs"
    ),
    "clock_jumped": Kind(
        "the device's clock ran further than the block took", "run --retry-failed; stop what sets the clock"
    ),
    "clock_went_back": Kind(
        "the device's clock went back during a block", "run --retry-failed; stop what sets the clock"
    ),
    "corrupt_push": Kind(
        "a file arrived with another checksum", "check cable and storage of the device, run --retry-failed"
    ),
    "emulated": Kind("a time was asked of an emulated backend, which has none", "a bug: please report it"),
    "engine_missing": Kind("the runtime on the device lacks the quantized engine", "write another qengine, or auto"),
    "eval_outputs_not_written": Kind("the answers could not be stored on the device", "free storage there"),
    "garbled": Kind("the program's output cannot be read", "run --retry-failed; see its log in the workspace"),
    "interpreter_missing": Kind(
        "the runner was compiled for the other file format", "write format: [pt] or [ptl] to fit it"
    ),
    "invalid_samples": Kind(
        "the runner reported impossible times", "check the clock of the device, run --retry-failed"
    ),
    "killed": Kind(
        "the program was ended from outside, as a rule because memory was short",
        "close other programs, or use a smaller model",
    ),
    "load_failed": Kind(
        "the file cannot be loaded there", "build it again, or use the runtime's version of the message"
    ),
    "nnapi_compile_failed": Kind(
        "the accelerator refuses the compiled model", "try another preference, or backend: [cpu]"
    ),
    "nnapi_run_failed": Kind(
        "the accelerator took the model, and failed as it ran", "try another preference or precision, or backend: [cpu]"
    ),
    "no_artifact": Kind("the built file is not in the workspace", "run again: it is built anew"),
    "no_batches": Kind("the runner on the device is older than batches", "compile the runner anew"),
    "no_bundled_input": Kind(
        "the file has no input for PyTorch's own benchmark tool", "run again: it is built with one"
    ),
    "no_exit_code": Kind("the device did not say how the program ended", "check the connection, run --retry-failed"),
    "no_model": Kind("the file is not on the device", "run --retry-failed: it is sent again"),
    "no_output": Kind("the program left no output file", "free storage on the device, run --retry-failed"),
    "no_profile": Kind(
        "the library there was compiled without profiling",
        "profile with the C++ runner, or compile the library with its event tracer",
    ),
    "no_report": Kind("the program printed no report", "see its log; is it the right tool?"),
    "not_built": Kind("it could not be built, so it cannot be measured", "see the failure of its build"),
    "not_ready": Kind(
        "the device was not ready in time, and on_not_ready is fail",
        "let it cool or charge it; or raise protocol.gate.wait_seconds, or write protocol.on_not_ready: mark",
    ),
    "not_timed": Kind("the tool ran the model and tells no times", "use a newer release of it"),
    "not_told": Kind("the program cannot be asked for this", "put EdgeSweep's runner on the device"),
    "output_shape": Kind("the answers have another shape than the eager model's", "check input_shape and the output"),
    "run_failed": Kind("the model raised an error while it ran", "the message has its words; try another capture"),
    "runner_broken": Kind("the runner does not start on this device", "compile it for the device's ABI"),
    "runtime_skew": Kind(
        "the file is newer than the runtime that loads it", "update the runtime there, as the message says"
    ),
    "timeout": Kind(
        "the program ran longer than it may", "use a smaller model or fewer iterations (protocol.iterations)"
    ),
    "too_much_output": Kind(
        "the program printed or wrote more than it may",
        "remove prints from the model; if it has none, put the runner there anew",
    ),
    "truncated": Kind("the output ends before the report does", "run --retry-failed; check the connection and memory"),
    "wrong_artifact": Kind("another file was loaded than was asked for", "run --retry-failed"),
    "wrong_backend": Kind("the file is made for another backend", "build it again"),
    "wrong_layout": Kind("the file takes its input in another layout than its manifest says", "build it again"),
    "wrong_format": Kind("the file is of the other format", "build it again, or use the other runner"),
}

_REACHING = {
    "adb_in_use": Kind(
        "the adb server cannot be restarted while others use it", "plug the phone in again, or restart it"
    ),
    "adb_server": Kind("the adb server of this host was stopped or replaced", "use one adb on this host"),
    "adb_version": Kind("two versions of adb fight on one host", "end the other, or name it in ADBUTILS_ADB_PATH"),
    "ambiguous_serial": Kind("two phones call themselves by one serial", "remove one of them from devices:"),
    "another_device": Kind("another phone answers at this address", "run again, to plan for it"),
    "bad_name": Kind("a file or argument has a name that a device cannot take", "rename it"),
    "broken_transport": Kind("the package that provides this transport does not work", "repair or uninstall it"),
    "changed_host_key": Kind(
        "the board has another host key than before", "if you know why: ssh-keygen -R, then ssh once"
    ),
    "disconnected": Kind("the device went away while it measured", "check cable and power; run again"),
    "disqualified": Kind(
        "every block had a disqualifying label", "edgesweep explain LABEL for each, then measure again"
    ),
    "leased": Kind("another program of EdgeSweep has the device", "wait for it, or stop it"),
    "mode_stays": Kind("the phone does not leave its fixed-performance mode", "restart it"),
    "no_lab": Kind("the device is one of a lab, and no lab was named", "--lab HOST:PORT --token-file FILE"),
    "no_permissions": Kind(
        "this user may not open the phone's USB port", "install Android's udev rules, plug it in again"
    ),
    "no_phone": Kind(
        "no such phone can be measured", "edgesweep devices lists phones, and says why one cannot be used"
    ),
    "no_runner": Kind("there is no program for this device", "compile the runner, or put it into the runners folder"),
    "no_shell_v2": Kind(
        "the phone is too old to report how programs end", "Android 7 is the oldest version that works"
    ),
    "no_space": Kind(
        "the device or this computer is full", "free storage; edgesweep devices clean deletes EdgeSweep's files"
    ),
    "offline": Kind("the device does not answer", "unlock it, plug it in again, restart it"),
    "orphan": Kind("a program of an earlier run cannot be ended", "restart the device"),
    "os_error": Kind("this computer's operating system refused", "the message says what: disk, processes or rights"),
    "quarantined": Kind("the device failed too often and is left alone", "edgesweep quarantine shows how to free it"),
    "rebooted": Kind("the device restarted during a block", "run --retry-failed"),
    "unauthorized": Kind(
        "the device does not trust this computer", "unlock it and allow this computer; of a board: ssh-copy-id"
    ),
    "unknown_device": Kind("no device has this name", "edgesweep devices lists names"),
    "unknown_host_key": Kind(
        "this computer does not know the board's host key", "ssh to it once, and compare the fingerprint"
    ),
    "unresponsive": Kind("the device is connected and runs nothing", "restart it"),
}

_LAB = {
    "head_away": Kind(
        "the lab's head cannot be reached", "check it and its network, start it again, run the same command"
    ),
    "host_away": Kind(
        "a host of the lab cannot be reached", "check it and its network; what it measured is kept there"
    ),
    "host_disk": Kind("a host of the lab is full, or its disk fails", "free space there; its devices are waited for"),
    "host_leaving": Kind("a host leaves the lab", "start edgesweep host there again"),
    "lease_lost": Kind("the right to use a lab's device has ended", "run again"),
    "not_kept": Kind("a host keeps no answer that was lost", "nothing to do: it is measured again"),
    "other_version": Kind(
        "another version left results on a host, which cannot be read", "run again: they are measured"
    ),
    "queued": Kind("another sweep has the device now", "wait: it is this sweep's in its turn"),
    "worker_error": Kind("EdgeSweep's process for the device failed", "run again; if it stays, report the message"),
    "worker_lost": Kind("the process that built or measured was ended from outside", "run again; was memory short?"),
}

_VIRTUAL = {
    "needs_root": Kind("virtual phones need root", "run as root, or in a privileged container"),
    "no_adbd": Kind("Debian's adbd could not be fetched", "give apt a Debian mirror that has it"),
    "no_apt": Kind("virtual phones take adbd from Debian", "use a Debian, or its container"),
    "no_program": Kind("virtual phones need programs that are not here", "install those of the message"),
    "not_linux": Kind("virtual phones run on Linux only", "use a Linux computer or container"),
    "not_started": Kind("a virtual phone did not start", "its log says why; a container must be privileged"),
}

USAGE = "bad_command"
"""The kind of an invalid command line."""

_COMMANDS = {
    USAGE: Kind("the command, an option or an argument is not as its help says", "see the command with --help"),
    "bad_store": Kind(
        "the journal or MLflow cannot be read or written",
        "do what the message says; edgesweep journal verify checks the journal",
    ),
    "bad_sweep_file": Kind(
        "the sweep file has a mistake, or values that contradict each other",
        "correct the lines that the message names; edgesweep schema has all that may be in it",
    ),
    "bad_workspace": Kind(
        "the workspace cannot be used: another process has it, it cannot be written, or there is none yet",
        "do what the message says; --workspace names another folder",
    ),
    "no_cluster": Kind(
        "Ray does not start, or has lost a worker for good", "do what the message says; --executor inline needs no Ray"
    ),
    "no_results": Kind("there is no such sweep, or nothing was measured in it yet", "edgesweep sweeps lists them"),
    "refused": Kind("a command was refused for a reason of its own", "do what the message says"),
}

_OF_PRECISION = MappingProxyType(
    {
        ("low_sqnr", "int8"): "use more calibration images (data.calibration.images) or another quantization, or keep "
        "fp32",
        ("low_sqnr", ""): "a step of the build or a kernel computes something else than the model: write fuse: [false] "
        "or optimize: [false], or try another capture or runtime",
    }
)
"""The advice about a kind that has two causes, by kind and precision; the precision `""` stands for all others."""

FAILS_AGAIN = frozenset(
    {
        *("accuracy_lost", "already_quantized", "bad_output", "crashed_on_load", "crashed_on_run", "data_dependent"),
        *("interface_not_possible", "invalid_output", "low_sqnr", "malformed_nnapi_model", "nnapi_conversion"),
        *("not_buildable", "not_bundled", "not_capturable", "not_exportable", "not_fusable", "not_optimizable"),
        *("not_possible", "not_quantizable", "not_savable", "not_scriptable", "not_traceable", "nothing_to_fill"),
        *("nothing_to_quantize", "output_shape", "too_few_calibration_images", "too_large", "trace_differs"),
        "unsupported_operator",
    }
)
"""The kinds that fail the same way again unless the model or the sweep file changes: `--retry-failed` is not offered
for them."""

FAILURES = MappingProxyType({**_BUILDING, **_RUNNING, **_REACHING, **_LAB, **_VIRTUAL, **_COMMANDS})


def remedy(kind: str, precision: str = "") -> str:
    """Return what to do about a failure of this kind, of a build in this precision; empty for an unknown kind."""
    special = _OF_PRECISION.get((kind, precision)) or (precision and _OF_PRECISION.get((kind, "")))
    known = FAILURES.get(kind)
    return special or (known.todo if known else "")


def another_try(kinds: Collection[str]) -> str:
    """Return a text about how many failed jobs, with these kinds, are worth another try: the others would fail the same
    way."""
    worth_trying = sum(kind not in FAILS_AGAIN for kind in kinds)
    if not worth_trying:
        return "edgesweep status says what to do"
    which = "" if worth_trying == len(kinds) else f"{worth_trying} of them: "
    return f"{which}try again with --retry-failed"
