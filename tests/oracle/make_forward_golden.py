"""Writes tests/golden/forward/NAME/: what transformers computes for small random models.

NAME/config.json, model.safetensors   the model, saved by transformers (or model.gguf, written here
                                      the way the GGUF converter does)
NAME/golden.safetensors               inputs (ids packed without padding, lengths, images, memory) and
    shipped32.*   transformers in float32, attention "eager"
    shipped64.*   the same model after .double(), kept as float32: its RoPE tables, RMSNorms and
                  softmaxes still work in float32
    double.*      everything in float64: torch.float32 and Tensor.float mean float64 while the model
                  is built and run
    .state.L      what enters the first layer (L = 0) and leaves layer L, before the final norm
    .final, .logits, .attention.LAYER.HEAD (of the first sample; .cross.LAYER.HEAD for cross-attention)

Batches are padded for transformers; only real tokens are kept. All parameters are drawn, none stays at
its default. Re-run with the versions of requirements.txt:  python tests/oracle/make_forward_golden.py
"""

import shutil

import transformers as T
from forward_cases import OUT
from forward_families import decoders, encoders
from forward_families_gguf import from_gguf, states_from_gguf
from forward_families_states import delta_nets, hybrids, short_convolutions, state_spaces

if __name__ == "__main__":
    T.logging.set_verbosity_error()
    shutil.rmtree(OUT, ignore_errors=True)
    for cases in (encoders, decoders, state_spaces, hybrids, short_convolutions, delta_nets, from_gguf, states_from_gguf):
        cases()
    print(sum(f.stat().st_size for f in OUT.rglob("*")) // 1024, "kB in", len(list(OUT.iterdir())), "cases")
