"""A build puts back all that it changes in torch."""

import torch

from workers.runtimes.torchscript.torch_state import build_state


def test_engine_threads_and_gradients_are_put_back_even_after_an_error() -> None:
    before = torch.backends.quantized.engine, torch.get_num_threads(), torch.is_grad_enabled()
    inside: tuple[str, int, bool] | None = None
    try:
        with build_state("onednn"):
            inside = torch.backends.quantized.engine, torch.get_num_threads(), torch.is_grad_enabled()
            raise KeyError
    except KeyError:
        pass
    assert inside == ("onednn", 1, False)
    assert (torch.backends.quantized.engine, torch.get_num_threads(), torch.is_grad_enabled()) == before
