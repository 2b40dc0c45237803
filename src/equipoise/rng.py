"""Random numbers as an argument: xoshiro256++, the same draws compiled and in plain Python.

A generator is its state, `uint64[4]`, passed to whatever draws. It is seeded from numpy's
`SeedSequence`, one child for each replication and purpose. Against a numpy `Generator` it is
1.2 to 1.5 times faster inside a kernel and far cheaper to call from the live dispatcher.

`exponential` is the ziggurat of Marsaglia and Tsang (2000) with 256 layers.
Source: Blackman and Vigna (2021), Scrambled linear pseudorandom number generators, TOMS 47(4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .compile import compiled_as, near

TWO_53 = 2.0**-53
_U = np.uint64
_MASK = 2**64 - 1


# the streams of a replication: arrivals, service, policy, servers, start state, delays of messages,
# clocks, who among several dispatchers gets a task
ARRIVALS_SEED, SERVICE_SEED, POLICY_SEED, SERVERS_SEED, START_SEED, DELAYS_SEED, CLOCK_SEED = range(
    7
)
SPLIT_SEED = 7


def seeds(seed: int, replication: int) -> list[np.random.SeedSequence]:
    """Return the streams of a replication, by the names above."""
    return np.random.SeedSequence(seed, spawn_key=(replication,)).spawn(8)


def dispatcher_seeds(policy: np.random.SeedSequence, count: int) -> list[np.random.SeedSequence]:
    """Return the coins of each of several dispatchers; the first has those of one that is alone.

    `policy` is the stream POLICY_SEED of a replication. The same from every call.
    """
    more = [
        np.random.SeedSequence(policy.entropy, spawn_key=(*policy.spawn_key, k))
        for k in range(1, count)
    ]
    return [policy, *more]


def make_rng(seed: np.random.SeedSequence | int) -> np.ndarray:
    """Return a generator's state, uint64[4], from a seed or a `SeedSequence`."""
    if not isinstance(seed, np.random.SeedSequence):
        seed = np.random.SeedSequence(seed)
    return seed.generate_state(4, np.uint64)


def stepped(s0, s1, s2, s3):
    """Return the next word and the new state, four uint64 in registers; compiled code only."""
    word = s0 + s3
    word = ((word << _U(23)) | (word >> _U(41))) + s0
    moved = s1 << _U(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= moved
    s3 = (s3 << _U(45)) | (s3 >> _U(19))
    return word, s0, s1, s2, s3


def _step_compiled(rng):
    word, s0, s1, s2, s3 = stepped(rng[_U(0)], rng[_U(1)], rng[_U(2)], rng[_U(3)])
    rng[_U(0)], rng[_U(1)], rng[_U(2)], rng[_U(3)] = s0, s1, s2, s3
    return word


@compiled_as(_step_compiled)
def step(rng: np.ndarray) -> np.uint64:
    """Step the generator; return its word."""
    s0, s1, s2, s3 = (int(s) for s in rng)
    sum_ = (s0 + s3) & _MASK
    out = ((((sum_ << 23) | (sum_ >> 41)) & _MASK) + s0) & _MASK
    moved = (s1 << 17) & _MASK
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= moved
    s3 = ((s3 << 45) | (s3 >> 19)) & _MASK
    rng[0], rng[1], rng[2], rng[3] = s0, s1, s2, s3
    return np.uint64(out)


def parts(word):
    """Return the upper 53 bits of a word and, apart, its lowest 8."""
    # int64 from here on: mixing signed and unsigned would turn numbers into floats
    return np.int64(word >> _U(11)), np.int64(word & _U(255))


def word(rng):
    """Step the generator; return the upper 53 bits of its word and, apart, the lowest 8."""
    return parts(step(rng))


def uniform(rng):
    """Return a double uniform on [0, 1), a multiple of 2^-53."""
    return word(rng)[0] * TWO_53


def _ahead_compiled(rng):
    s0, s1, s2, s3 = rng[_U(0)], rng[_U(1)], rng[_U(2)], rng[_U(3)]
    a, s0, s1, s2, s3 = stepped(s0, s1, s2, s3)
    b, s0, s1, s2, s3 = stepped(s0, s1, s2, s3)
    c, s0, s1, s2, s3 = stepped(s0, s1, s2, s3)
    d, s0, s1, s2, s3 = stepped(s0, s1, s2, s3)
    e, s0, s1, s2, s3 = stepped(s0, s1, s2, s3)
    f, s0, s1, s2, s3 = stepped(s0, s1, s2, s3)
    return _uniform(a), _uniform(b), _uniform(c), _uniform(d), _uniform(e), _uniform(f)


def _uniform(word):
    return parts(word)[0] * TWO_53


@compiled_as(_ahead_compiled)
def ahead(rng):
    """Return the next six uniforms, without drawing them; those not used cost nothing."""
    copy = rng.copy()
    return tuple(uniform(copy) for _ in range(6))


SOON = 16  # words held ahead, a power of two


@near(state=4, at=1)
class Soon(NamedTuple):
    """A generator whose next words are there to be looked at.

    `uniform_soon` and `exponential_soon` take one word of these each, always, so that one knows
    which will be for what. An exponential that needs more has them from the generator itself, and
    so may anything else be drawn, from `state`.
    """

    state: np.ndarray  # uint64[4], the generator, beyond the words that are held
    words: np.ndarray  # uint64[SOON], a ring
    at: np.ndarray  # int64[1], where the next word stands


def make_soon(rng: np.ndarray) -> Soon:
    """Return a generator that holds the next words of `rng`, uint64[4], which is stepped on."""
    words = np.array([step(rng) for _ in range(SOON)], np.uint64)
    return Soon(rng, words, np.zeros(1, np.int64))


def word_soon(soon):
    """`word` of a `Soon`."""
    here = soon.at[0]
    out = soon.words[np.uintp(here)]
    soon.words[np.uintp(here)] = step(soon.state)
    soon.at[0] = (here + 1) & (SOON - 1)
    return parts(out)


def word_beyond(soon):
    """`word` of a `Soon`, not one of those that are held."""
    return word(soon.state)


def uniform_soon(soon):
    """`uniform` of a `Soon`."""
    return word_soon(soon)[0] * TWO_53


def peek(soon, k):
    """Return what `uniform_soon` will give after k other draws, 0 <= k < SOON."""
    return _uniform(soon.words[np.uintp((soon.at[0] + k) & (SOON - 1))])


def below(rng, n):
    """Return an integer uniform on 0 .. n - 1; its bias is below n / 2^53."""
    return int(word(rng)[0] * TWO_53 * n)


def _ziggurat() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Layers of equal area under e^-x: width per 53-bit unit, sure-accept bound, height."""
    right, area = 7.69711747013104972, 0.0039496598225815571993
    x = np.zeros(257)
    x[0], x[1] = area * math.exp(right), right
    for i in range(1, 255):
        x[i + 1] = -math.log(area / x[i] + math.exp(-x[i]))
    x[256] = 0.0
    return x[:256] * TWO_53, x[1:] / x[:256] * 2.0**53, np.exp(-x)


WIDTH, SURE, HEIGHT = _ziggurat()


def exponential_by(first: Callable[..., Any], word: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that draws a unit-mean exponential.

    `first` gives its first word, and the only one of 98.9 % of draws; `word` what it needs more.
    """

    def exponential(rng):
        """Return a unit-mean exponential."""
        bits, layer = first(rng)
        x = bits * WIDTH[layer]
        if bits < SURE[layer]:  # 98.9 % of draws
            return x
        while True:
            if layer == 0:  # beyond the base layer
                return WIDTH[0] * SURE[0] - math.log(1.0 - word(rng)[0] * TWO_53)
            low, high = HEIGHT[layer], HEIGHT[layer + 1]
            if low + word(rng)[0] * TWO_53 * (high - low) < math.exp(-x):
                return x
            bits, layer = word(rng)
            x = bits * WIDTH[layer]
            if bits < SURE[layer]:
                return x

    return exponential


exponential = exponential_by(word, word)
exponential_soon = exponential_by(word_soon, word_beyond)


def normal(rng):
    """Return a standard normal, by the polar method of Marsaglia and Bray (1964)."""
    while True:
        x, y = 2.0 * uniform(rng) - 1.0, 2.0 * uniform(rng) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square)


FEW_PHASES = 16  # from here on one rejection is cheaper than so many factors


def erlang(rng, phases):
    """Return the sum of `phases` >= 1 unit-mean exponentials.

    The logarithm of a product while there are few; else by the rejection of Marsaglia and Tsang
    (2000), A simple method for generating gamma variables, TOMS 26(3): about 25 ns for any number.
    """
    if phases < FEW_PHASES:
        product = 1.0
        for _ in range(phases):
            product *= 1.0 - uniform(rng)  # never 0: at least 2^-53 each, 2^-795 in all
        return -math.log(product)
    shift = phases - 1.0 / 3.0
    scale = 1.0 / math.sqrt(9.0 * shift)
    while True:
        x = normal(rng)
        root = 1.0 + scale * x
        if root <= 0.0:
            continue
        cube = root * root * root
        if math.log(1.0 - uniform(rng)) < 0.5 * x * x + shift * (1.0 - cube + math.log(cube)):
            return shift * cube


SMALL_MEAN = 10.0  # below, the product of uniforms; the rejection's hat is proven from here on


def poisson(rng, mean):
    """Return a Poisson number of this mean, 0 <= mean <= 1e15, as a whole int.

    Small means by counting uniforms, others by the transformed rejection PTRS of Hörmann (1993),
    Insurance: Mathematics and Economics 12. Its test compares with `log_poisson`, which stays exact
    where k log(mean) - mean - log k! would be the difference of numbers of size 1e13.
    """
    if mean < SMALL_MEAN:
        least, product, k = math.exp(-mean), 1.0 - uniform(rng), 0
        while product > least:
            product *= 1.0 - uniform(rng)
            k += 1
        return k
    b = 0.931 + 2.53 * math.sqrt(mean)
    a = -0.059 + 0.02483 * b
    hat = 1.1239 + 1.1328 / (b - 3.4)
    sure = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = uniform(rng) - 0.5
        v = 1.0 - uniform(rng)
        us = 0.5 - abs(u)
        if us <= 0.0:  # u = -1/2, once in 2^53
            continue
        x = math.floor((2.0 * a / us + b) * u + mean + 0.43)
        if us >= 0.07 and v <= sure:
            return int(x)
        if x < 0.0 or (us < 0.013 and v > us):
            continue
        if math.log(v * hat / (a / (us * us) + b)) <= log_poisson(x, mean):
            return int(x)


def log_poisson(k, mean):
    """Return the logarithm of P(Poisson(mean) = k), k a whole float >= 0, without cancellation.

    The saddle-point form of Loader (2000), Fast and accurate computation of binomial probabilities.
    """
    if k == 0.0:
        return -mean
    return -_stirling_error(k) - _deviance(k, mean) - 0.5 * math.log(2.0 * math.pi * k)


def _stirling_error(k):
    """log k! minus Stirling's formula, k >= 1."""
    if k < 16.0:
        return math.lgamma(k + 1.0) - (k + 0.5) * math.log(k) + k - 0.5 * math.log(2.0 * math.pi)
    kk = k * k
    return (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / kk) / kk) / kk) / k


def _deviance(k, mean):
    """k log(k / mean) + mean - k, to full accuracy where k is near the mean."""
    gap = k - mean
    if abs(gap) >= 0.1 * (k + mean):
        return k * math.log(k / mean) - gap
    v = gap / (k + mean)
    total, term, odd = gap * v, 2.0 * k * v, 1.0
    square = v * v
    while True:
        term *= square
        odd += 2.0
        more = total + term / odd
        if more == total:
            return total
        total = more
