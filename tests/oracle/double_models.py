"""Models of transformers with drawn parameters, and in double precision throughout."""
import contextlib
import math

import torch


def gelu(x, approximate="none"):
    """GELU whose digits stay where x is far below 0: torch adds 1 and a number near -1 there, and a norm may divide by the result."""
    if approximate == "tanh":
        return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * torch.special.erfc(-x / math.sqrt(2))


@contextlib.contextmanager
def all_double():
    """float32 means float64: the islands that models keep in float32 go with the rest."""
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    own, torch.nn.functional.gelu = torch.nn.functional.gelu, gelu
    try:
        yield
    finally:
        torch.nn.functional.gelu = own
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(saved[0])


def randomise(model, seed, size=0.3):
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(model.named_parameters()):
        with torch.no_grad():
            gain = p.dim() == 1 and "norm" in name.lower() or ".ln_" in name
            p.copy_(torch.randn(p.shape, generator=g) * size + (1.0 if gain and name.endswith("weight") else 0.0))
