"""Two arithmetics behind one interface: numpy's long double for screening, Arb balls (python-flint) for the verdict.

Everything is an array [..., n, d]; the balls sit in object arrays, on which numpy's operators and matmul work.
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
    name = "arb"

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


class Wide:
    name = "longdouble"

    @staticmethod
    def of(x):
        return np.asarray(x).astype(np.longdouble)

    @staticmethod
    def number(x):
        """A ball becomes the nearest long double by way of two doubles."""
        if isinstance(x, arb):
            high = float(x.mid())
            return np.longdouble(high) + np.longdouble(float((x - arb(high)).mid()))
        return np.longdouble(x)

    exp, tanh, cos, sin, sqrt = map(staticmethod, (np.exp, np.tanh, np.cos, np.sin, np.sqrt))

    @staticmethod
    def relu(x):
        return np.maximum(x, 0)

    @staticmethod
    def erf(x):
        from scipy.special import erf
        return erf(x.astype(np.float64)).astype(np.longdouble)

    @staticmethod
    def floats(x):
        return x.astype(np.float64)

    @staticmethod
    def largest(values):
        return max(values)

    @staticmethod
    def smallest(values):
        return min(values)


def table(balls, B):
    """An array of balls in arithmetic B."""
    return balls if B is Balls else np.vectorize(B.number, otypes=[np.longdouble])(balls)


def upper(v):
    return float(v.upper()) if isinstance(v, arb) else float(v)


def float_of(v):
    return float(v.mid()) if isinstance(v, arb) else float(v)
