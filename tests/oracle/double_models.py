"""Models of transformers with drawn parameters, and in double precision throughout."""
import contextlib

import torch


@contextlib.contextmanager
def all_double():
    """float32 means float64: the islands that models keep in float32 go with the rest."""
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(saved[0])


def randomise(model, seed, size=0.3):
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        with torch.no_grad():
            gain = p.dim() == 1 and "norm" in name.lower() or ".ln_" in name
            p.copy_(torch.randn(p.shape, generator=g) * size + (1.0 if gain and name.endswith("weight") else 0.0))
