"""Arithmetic of Arb balls (python-flint) in arrays: numpy's operators and matmul work on objects, so a layer is written as for floats.

Small shapes are quicker this way than a screening pass, and every verdict is exact: nothing depends on an estimate of rounding.
"""

import numpy as np
from flint import arb, ctx

ctx.prec = 320
_make = np.frompyfunc(lambda v: arb(float(v)), 1, 1)
_exp = np.frompyfunc(lambda v: v.exp(), 1, 1)
_tanh = np.frompyfunc(lambda v: v.tanh(), 1, 1)
_erf = np.frompyfunc(lambda v: v.erf(), 1, 1)
_cos = np.frompyfunc(lambda v: v.cos(), 1, 1)
_sin = np.frompyfunc(lambda v: v.sin(), 1, 1)
_mid = np.frompyfunc(lambda v: float(v.mid()), 1, 1)
_relu = np.frompyfunc(lambda v: v.max(arb(0)), 1, 1)


def root(v):
    """The square root of a sum of squares, whose ball may reach below zero."""
    return arb(0).max(v).sqrt() if not v > 0 else v.sqrt()


_root = np.frompyfunc(root, 1, 1)


class Balls:
    @staticmethod
    def of(x):
        return _make(np.asarray(x, dtype=np.float64))

    @staticmethod
    def number(x):
        """x: a float, an int, or an arb as it is."""
        return x if isinstance(x, arb) else arb(x)

    exp, tanh, erf, cos, sin, sqrt, relu = map(staticmethod, (_exp, _tanh, _erf, _cos, _sin, _root, _relu))

    @staticmethod
    def floats(x):
        return _mid(x).astype(np.float64)

    @staticmethod
    def largest(values):
        best = values[0]
        for v in values[1:]:
            best = best.max(v)
        return best

    @staticmethod
    def smallest(values):
        best = values[0]
        for v in values[1:]:
            best = best.min(v)
        return best
