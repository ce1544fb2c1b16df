"""The factors that `rankscope scan --write` put beside this file, in PyTorch alone. Of any model with a module for each map
(transformers has one): load(model) puts a Pieces in the place of each nn.Linear or Conv1D that was cut, and the model computes
with the small factors. dense() gives the whole matrices [out, in] instead."""
import json
import os

import torch

TYPES = {"F32": torch.float32, "I64": torch.int64}
HERE = os.path.dirname(os.path.abspath(__file__))


def safetensors(path):
    """8 bytes with the header's length, the header as JSON, then the numbers."""
    data = bytearray(open(path, "rb").read())
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(data[start + t["data_offsets"][0]:start + t["data_offsets"][1]],
                                   dtype=TYPES[t["dtype"]]).reshape(t["shape"]) for name, t in header.items()}


def pieces(folder=HERE):
    """{weight: [{"out" or "in": numbers, "by_vector": ..., "by_feature": ... or absent, "shift": ... or absent, or "zero": features}]}"""
    found = {}
    for name, tensor in safetensors(os.path.join(folder, "factors.safetensors")).items():
        weight, number, part = name.rsplit(":", 2)
        found.setdefault(weight, {}).setdefault(int(number), {})[part] = tensor
    return {weight: [of[i] for i in sorted(of)] for weight, of in found.items()}


class Pieces(torch.nn.Module):
    """y = sum over pieces: outputs `out` are by_vector (by_feature x); of inputs `in` it is by_featureᵀ (by_vectorᵀ x).
    What no piece writes is 0. Computed in F32, or the model's own type where that is wider, and given in the model's."""

    def __init__(self, parts, outputs, bias):
        super().__init__()
        self.names, self.outputs = [sorted(part) for part in parts], outputs
        for i, part in enumerate(parts):
            for name, tensor in part.items():
                self.register_buffer(f"p{i}_{name}", tensor)
        if bias is not None and "out" in parts[0]:
            whole = torch.zeros_like(bias)
            for part in parts:
                whole[part["out"]] = part["shift"].to(bias) if "shift" in part else bias[part["out"]]
            bias = whole
        self.register_buffer("bias", bias)

    def forward(self, x):
        own, kind = x.dtype, torch.promote_types(x.dtype, torch.float32)
        x = x.to(kind)
        y = x.new_zeros(*x.shape[:-1], self.outputs)
        for i, names in enumerate(self.names):
            if "zero" in names:
                continue
            part = {name: getattr(self, f"p{i}_{name}") for name in names}
            part = {name: number.to(kind) if name.startswith("by_") else number for name, number in part.items()}
            first, second = part["by_vector"], part.get("by_feature")
            if "out" in part:
                z = x @ (first if second is None else second).T
                y[..., part["out"]] = z if second is None else z @ first.T
            else:
                z = x[..., part["in"]] @ first
                y = y + (z if second is None else z @ second)
        return (y if self.bias is None else y + self.bias).to(own)


def rows_of(part):
    """[vectors, features]"""
    if "zero" in part:
        return torch.zeros(len(part.get("out", part.get("in"))), int(part["zero"][0]))
    return part["by_vector"] @ part["by_feature"] if "by_feature" in part else part["by_vector"]


def dense(folder=HERE):
    """{weight: [out, in]} with every product multiplied out."""
    whole = {}
    for weight, parts in pieces(folder).items():
        vectors = torch.cat([part.get("out", part.get("in")) for part in parts])
        rows = torch.cat([rows_of(part) for part in parts])
        n = int(safetensors(os.path.join(folder, "factors.safetensors"))[f"{weight}:0:vectors"][0])
        whole[weight] = torch.zeros(n, rows.shape[1]).index_copy(0, vectors, rows)
        if "in" in parts[0]:
            whole[weight] = whole[weight].T
    return whole


def load(model, folder=HERE):
    """Replaces the modules of `model` (read from the folder above this one) and returns it."""
    modules = dict(model.named_modules())
    for weight, parts in pieces(folder).items():
        path = weight.removesuffix(".weight")
        steps = path.split(".")  # the checkpoint may call the outermost modules otherwise, or leave them out
        tails = [".".join(steps[i:]) for i in range(len(steps))]
        fits = next((found for tail in tails if (found := [n for n in modules if n == tail or n.endswith("." + tail)])), [])
        name = fits[0] if len(fits) == 1 else None
        if name is None or not hasattr(modules[name], "weight"):
            raise KeyError(f"no module of the model has the weight {weight}: take dense() for its matrix")
        old, (owner, _, leaf) = modules[name], name.rpartition(".")
        outputs = old.weight.shape[0] if isinstance(old, torch.nn.Linear) else old.weight.shape[1]
        parts = [{key: value for key, value in part.items() if key != "vectors"} for part in parts]
        bias = None if old.bias is None else old.bias.detach()
        setattr(model.get_submodule(owner) if owner else model, leaf, Pieces(parts, outputs, bias).to(old.weight.device))
    return model
