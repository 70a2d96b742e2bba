"""Evaluates an artifact: writes its logits for all images to a file."""

import argparse
import ctypes
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from workers.runtimes.torchscript.runner.events import GiveUp, tell
from workers.runtimes.torchscript.runner.inputs import as_given, images_of
from workers.runtimes.torchscript.runner.process import be_patient

if TYPE_CHECKING:
    import torch


def evaluate(model: Any, options: argparse.Namespace, report: IO[str]) -> None:
    """Evaluate all images of `--eval-inputs` in batches of `--input-dims`; the last batch is padded with its last
    image.

    Does not use numpy, which may be missing beside an old torch. Raises `GiveUp`: `bad_eval_inputs`, `bad_output`,
    `eval_outputs_not_written`.
    """
    import torch

    batch = options.input_dims[0]
    images = images_of(options.eval_inputs, options.input_dims[1:])
    answers: list[torch.Tensor] = []
    first = 0
    for start in range(0, len(images), batch):
        part = images[start : start + batch]
        images_left = len(part)
        if images_left < batch:
            part = torch.cat([part, part[-1:].expand(batch - images_left, *part.shape[1:])])
        # Copied, because a model may write into its input, which is a mapped file.
        x = as_given(part.clone(), options.memory_format, options.input_scale, options.input_zero_point)
        be_patient(options)
        started = time.perf_counter_ns()
        answer = model(x)
        first = first or time.perf_counter_ns() - started
        # Copied, because a runtime may write the next answer into the same memory.
        answers.append(_logits(answer, batch)[:images_left].clone())
    logits = torch.cat(answers).contiguous()
    target = Path(options.eval_outputs)
    try:
        partial = target.with_name(target.name + ".partial")
        partial.write_bytes(ctypes.string_at(logits.data_ptr(), logits.numel() * logits.element_size()))
        partial.replace(target)
    except OSError as error:
        raise GiveUp("eval_outputs_not_written", f"{target} can not be written: {error.strerror}") from error
    tell(report, "first_inference", ns=first)
    tell(report, "eval", images=logits.shape[0], classes=logits.shape[1])


def _logits(answer: object, batch: int) -> "torch.Tensor":
    import torch

    if not isinstance(answer, torch.Tensor):
        raise GiveUp("bad_output", f"the model answers a {type(answer).__name__}, not one tensor (batch, classes)")
    if answer.is_quantized:
        answer = answer.dequantize()
    if answer.dim() != 2 or answer.shape[0] != batch or not answer.is_floating_point():
        raise GiveUp(
            "bad_output",
            f"the model answers {answer.dtype} of shape {tuple(answer.shape)}, not float32 of ({batch}, classes)",
        )
    return answer.float()
