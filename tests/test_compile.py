"""Compiled code is kept by its content: never stale, never compiled twice, never in the way."""

import os
import subprocess
import sys
import textwrap
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import compile as compile_
from equipoise.compile import (
    bits_of,
    borrow,
    by_address,
    cache_folder,
    content_key,
    counters,
    give_back,
    hurry,
    keep_view,
    kernel,
    near,
    nearby,
    outline,
    twin,
)
from equipoise.policies import POLICIES
from equipoise.policies.levels import (
    demote,
    lower_one,
    make_bands,
    make_levels,
    raise_one,
    set_band,
    set_level,
)
from equipoise.rng import below, exponential, make_rng, uniform

SRC = str(Path(compile_.__file__).parents[1])


def module_of(text, name="equipoise_user_tested", **given_names):
    """A new module made of this text, as new as in another process."""
    module = types.ModuleType(name)
    vars(module).update(given_names)
    exec(compile(textwrap.dedent(text), f"{name}.py", "exec"), vars(module))
    return module


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder of its own for compiled kernels, empty."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv("EQUIPOISE_CACHE", str(folder))
    return folder


class Counted:
    """How many kernels were found on disk and how many compiled, since it was made."""

    def __init__(self):
        self.before = counters.hits, counters.misses

    @property
    def hits(self):
        return counters.hits - self.before[0]

    @property
    def misses(self):
        return counters.misses - self.before[1]


# --- The content key -----------------------------------------------------------------------------

HELPER = """
    def more(x):
        return x + 1
    def twice(x):
        return more(x) * 2
"""
TEXT = """
    from typing import NamedTuple

    FACTOR = 3
    TABLE = np.array([1, 2, 3])
    PAIR = (1, 2.5)

    class State(NamedTuple):
        one: int
        two: int

    def inner(x):
        return x * FACTOR

    def made(offset):
        def function(x, y=7):
            state = State(one=x, two=inner(x))
            if x in {1, 5, 9}:
                return offset
            return state.one + TABLE[1] + PAIR[0] + y + offset + helper.twice(x) + len("abc")
        return function

    function = made(10)
"""


def key_of(text=TEXT, helper=HELPER):
    helper = module_of(helper, "equipoise_user_helper")
    return content_key(module_of(text, np=np, helper=helper).function)


def test_the_same_content_has_the_same_key():
    """Whatever its identity, and whatever else stands in the file."""
    assert key_of() == key_of()
    assert key_of() == key_of(TEXT + "\n    ELSE = 5\n")
    assert key_of() == key_of("\n    # a remark\n" + TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("state.one + TABLE[1]", "state.one - TABLE[1]"),  # bytecode
        ('len("abc")', 'len("abcd")'),  # a constant
        ("{1, 5, 9}", "{1, 5, 8}"),
        ("y=7", "y=8"),  # a default
        ("made(10)", "made(11)"),  # what it closes over
        ("made(10)", "made(10.0)"),
        ("FACTOR = 3", "FACTOR = 4"),  # a global of a helper
        ("FACTOR = 3", "FACTOR = 3.0"),
        ("[1, 2, 3]", "[1, 2, 4]"),  # a global array
        ("[1, 2, 3]", "[1, 2, 3], np.int32"),
        ("[1, 2, 3]", "[[1, 2, 3]]"),
        ("(1, 2.5)", "(1, 2.25)"),
        ("x * FACTOR", "x * FACTOR + 0"),  # a helper
        ("TABLE[1]", "TABLE[0]"),
        ("one: int\n        two", "two: int\n        one"),  # the order of fields
    ],
)
def test_what_a_function_reaches_is_in_its_key(old, new):
    assert old in TEXT
    assert key_of(TEXT.replace(old, new)) != key_of()


@pytest.mark.parametrize(("old", "new"), [("x + 1", "x + 2"), ("* 2", "* 3")])
def test_helpers_in_other_modules_are_in_the_key(old, new):
    """`helper.twice(x)`, and what that calls in its turn."""
    assert key_of(helper=HELPER.replace(old, new)) != key_of()


def test_what_decides_how_it_is_compiled_is_in_the_key():
    plain = "def inner(x):\n    return x\ndef function(x):\n    return inner(x)\n"
    called = module_of(plain)
    outline(called.inner)
    other = module_of(plain)
    other.inner.__compiled_as__ = lambda x: x

    keys = {content_key(module.function) for module in (module_of(plain), called, other)}

    assert len(keys) == 3


def test_content_without_a_name_is_not_cached(cache):
    """Rather compiled in every process than served by a key that leaves something out."""
    module = module_of("THING = {1: 2}\ndef function(x):\n    return x + (0 if THING else 1)\n")

    with pytest.raises(TypeError, match="no content key"):
        content_key(module.function)


def test_the_key_is_the_same_in_another_process():
    program = "from equipoise.compile import content_key; from equipoise.policies import POLICIES\n"
    program += "print(*[content_key(p.choose) for p in POLICIES.values()])"
    keys = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": SRC, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert keys[0] == keys[1]
    assert len(set(keys[0].split())) == len({p.choose for p in POLICIES.values()})


# --- Edits ---------------------------------------------------------------------------------------

LOOP = """
    from typing import NamedTuple

    STEP = 2
    WEIGHTS = np.array([1, 10])

    class State(NamedTuple):
        one: np.ndarray
        two: np.ndarray

    def state():
        return State(one=np.array([100]), two=np.array([1000]))

    def helper(x):
        return x + STEP

    def made(offset):
        def total(state, x):
            return state.one[0] + helper(x) + WEIGHTS[1] + offset + aside.moved(x)
        return total

    total = made(5)
"""
ASIDE = """
    def moved(x):
        return x * 3
"""


def run_of(text, aside):
    """Compile and run anew, as a process that starts does; return what it gives."""
    aside = module_of(aside, "equipoise_user_aside")
    module = module_of(text, np=np, aside=aside)
    sys.modules[module.__name__] = module  # where numba looks for the classes of a cached kernel
    return int(kernel(module.total)(module.state(), 1))


@pytest.mark.parametrize(
    ("old", "new", "gives"),
    [
        ("x + STEP", "x - STEP", 117),
        ("STEP = 2", "STEP = 4", 123),
        ("[1, 10]", "[1, 20]", 131),
        ("made(5)", "made(6)", 122),
        ("x * 3", "x * 4", 122),
        ("one: np.ndarray\n        two", "two: np.ndarray\n        one", 121),
        ("state.one", "state.two", 1021),
    ],
)
def test_an_edited_function_is_never_served_stale(old, new, gives, cache):
    run_of(LOOP, ASIDE)
    again = Counted()
    assert run_of(LOOP, ASIDE) == 121
    assert (again.hits, again.misses) == (1, 0)

    edited = Counted()

    assert run_of(LOOP.replace(old, new), ASIDE.replace(old, new)) == gives
    assert (edited.hits, edited.misses) == (0, 1)


def test_a_record_read_by_address_is_never_read_by_stale_names(cache):
    def read(text):
        module = module_of(text, np=np)
        sys.modules[module.__name__] = module
        state = module.state()
        return int(by_address(module.second, state)(keep_view(state).ctypes.data))

    text = (
        LOOP
        + """
    def second(state):
        return state.two[0]
    """
    )
    assert read(text) == read(text) == 1000

    swapped = text.replace("one: np.ndarray\n        two", "two: np.ndarray\n        one")
    assert read(swapped) == 1000


def test_a_global_that_changed_after_compiling_is_not_kept_for_others(cache):
    """What is on disk is what its key says, whatever this process did to its modules."""
    aside = module_of(ASIDE, "equipoise_user_aside")
    module = module_of(LOOP, np=np, aside=aside)
    sys.modules[module.__name__] = module
    assert kernel(module.total)(module.state(), 1) == 121

    module.STEP = 4
    kernel(module.total)(module.state(), 1)

    assert run_of(LOOP.replace("STEP = 2", "STEP = 4"), ASIDE) == 123


POLICY = """
from typing import NamedTuple
import numpy as np
from equipoise import Policy
from equipoise.policies import NO_PARAMS, NoParams
import beside

class State(NamedTuple):
    par: NoParams
    first: np.ndarray
    second: np.ndarray

def init(bounds, speeds, announcement):
    return State(par=NO_PARAMS, first=np.full(1, 1), second=np.full(1, 2)), 0

def choose(state, fleet, rng):
    return beside.of(state.first[0])

MINE = Policy("mine", init, choose)
"""
BESIDE = "def of(server):\n    return server\n"
GO = """
from equipoise import Scenario, resolve
from equipoise.compile import counters
from equipoise.sim.run import replicate
s = Scenario.simple(servers=4, load=0.1, tasks=50, replications=1, warm_up=0.0)
r = replicate(s, resolve("mine.py:MINE"), 0, kernel="events", trail=200)
print(sorted({int(x) for x in r.trail[: r.events] if x >= 0}), counters.hits, counters.misses)
"""


def test_an_edited_policy_or_helper_is_never_served_stale(tmp_path, cache):
    """A user's file, run in one process after the other."""

    def go(policy, beside):
        (tmp_path / "mine.py").write_text(policy)
        (tmp_path / "beside.py").write_text(beside)
        return subprocess.run(
            [sys.executable, "-c", GO],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": SRC, "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    assert go(POLICY, BESIDE) == "[1] 0 1"
    assert go(POLICY, BESIDE) == "[1] 1 0"
    assert go(POLICY, BESIDE.replace("return server", "return 3")) == "[3] 0 1"
    fields = ("first: np.ndarray\n    second", "second: np.ndarray\n    first")
    assert go(POLICY.replace(*fields), BESIDE) == "[1] 0 1"


# --- Processes and threads -----------------------------------------------------------------------

EIGHT = """
from equipoise import Scenario, compare
from equipoise.compile import counters
s = Scenario.simple(servers=10, load=0.8, tasks=500, replications=3, warm_up=0.0)
compare(s, ["random", "round-robin", "jsq", "jsq-d", "jiq", "jbt", "threshold(level=1)",
            "learning-threshold"])
print(counters.hits, counters.misses)
"""


def test_a_second_process_compiles_nothing():
    """The same eight policies twice, in the usual folder: other tests may have filled it."""

    def go():
        done = subprocess.run(
            [sys.executable, "-c", EIGHT],
            env={**os.environ, "PYTHONPATH": SRC},
            capture_output=True,
            text=True,
            check=True,
        )
        return [int(count) for count in done.stdout.split()]

    first, second = go(), go()

    assert sum(first) >= 8
    assert second[1] == 0
    assert second[0] >= 8


def test_threads_that_want_one_kernel_compile_it_once(cache):
    def slow(x):
        return x * 2 + 1

    made, found = kernel(slow), Counted()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(made, range(8))) == [1, 3, 5, 7, 9, 11, 13, 15]
    assert (found.hits, found.misses) == (0, 1)


def test_threads_that_make_twins_of_the_same_functions_do_not_meet_half_made_ones(cache):
    """Replications of one policy start at the same moment, each making the kernel's twins."""
    for step in range(20):
        module = module_of(TEXT + f"\n    STEP = {step}\n", np=np, helper=module_of(HELPER))
        with ThreadPoolExecutor(8) as pool:
            twins = list(pool.map(twin, [module.function] * 8))

        assert all(one is twins[0] for one in twins)
        assert hasattr(twins[0].py_func.__globals__["inner"], "py_func")


def test_threads_that_make_kernels_at_once_share_finished_twins():
    """What one thread is about to make is not yet a twin for another."""
    text = """
    def low(x):
        return x + 1
    def middle(x):
        return low(x) + low(x)
    def high(x):
        return middle(x) + low(x)
    """

    def plain_functions(dispatcher):
        reached = dispatcher.py_func.__globals__.values()
        return [value for value in reached if isinstance(value, types.FunctionType)] + [
            found
            for value in reached
            if hasattr(value, "py_func")
            for found in plain_functions(value)
        ]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(100):
                high = module_of(text).high
                made = list(pool.map(lambda _, function=high: twin(function), range(8)))
                assert [plain_functions(one) for one in made] == [[]] * 8
    finally:
        sys.setswitchinterval(interval)


# --- A cache that cannot be used -----------------------------------------------------------------


def add_up(values):
    total = 0.0
    for value in values:
        total += value
    return total


def test_where_nothing_can_be_written_kernels_are_compiled_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "file" / "kernels"))

    assert kernel(add_up)(np.arange(4.0)) == 6.0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_left_alone(cache):
    cache.mkdir()
    cache.chmod(0o500)

    assert kernel(add_up)(np.arange(4.0)) == 6.0
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("part", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("damage", [b"", b"rubbish", "half"])
def test_a_broken_entry_is_compiled_anew_and_mended(part, damage, cache):
    kernel(add_up)(np.arange(4.0))
    [file] = cache.glob(part)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2] if damage == "half" else damage)

    broken = Counted()
    assert kernel(add_up)(np.arange(4.0)) == 6.0
    assert (broken.hits, broken.misses) == (0, 1)
    mended = Counted()
    assert kernel(add_up)(np.arange(4.0)) == 6.0
    assert (mended.hits, mended.misses) == (1, 0)


def test_old_kernels_are_dropped_when_there_are_too_many(cache, monkeypatch):
    def first(x):
        return x + 1

    def second(x):
        return x + 2

    kernel(first)(1)
    sizes = sum(file.stat().st_size for file in cache.iterdir())
    for file in cache.iterdir():
        os.utime(file, (1, 1))
    monkeypatch.setattr(compile_, "MOST_CACHE_BYTES", sizes + 10)
    kernel(second)(1)

    assert {file.name.split("-")[0] for file in cache.iterdir()} == {"second"}
    assert kernel(first)(1) == 2


def test_the_folder_is_where_the_environment_says(monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", "/some/where")
    assert cache_folder() == Path("/some/where")
    monkeypatch.delenv("EQUIPOISE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_folder() == Path("/caches/equipoise/kernels")


# --- Compiled and plain --------------------------------------------------------------------------


def draw_all(rng, out):
    for i in range(out.shape[0]):
        out[i, 0] = uniform(rng)
        out[i, 1] = exponential(rng)
        out[i, 2] = below(rng, 1 + i % 1000)


def test_compiled_and_plain_draws_are_the_same():
    """Rare branches of the ziggurat included: 20 000 exponentials reach all of them."""
    plain, compiled = np.zeros((20_000, 3)), np.zeros((20_000, 3))
    rng, other = make_rng(11), make_rng(11)

    draw_all(rng, plain)
    kernel(draw_all)(other, compiled)

    assert (plain == compiled).all()
    assert (rng == other).all()


def shuffle_levels(levels, bands, servers, moves):
    for i in range(servers.size):
        server, move = servers[i], moves[i]
        if move == 0:
            raise_one(levels, server)
        elif move == 1:
            if levels.place[server, 1] > 0:
                lower_one(levels, server)
        elif move == 2:
            demote(bands, bands.position[server]) if bands.position[server] < bands.end[1] else 0
        elif move < 6:
            set_band(bands, server, move - 3)
        else:
            set_level(levels, server, move - 6)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 11)), max_size=150))
def test_compiled_and_plain_indices_move_alike(script):
    servers = np.array([server for server, _ in script], np.int64)
    moves = np.array([move for _, move in script], np.int64)

    def indices():
        return make_levels(np.array([0, 3, 1, 0, 2, 2, 5]), 9), make_bands([0, 1, 2, 2, 1, 0, 0], 3)

    plain, compiled = indices(), indices()
    shuffle_levels(*plain, servers, moves)
    SHUFFLE(*compiled, servers, moves)

    for one, other in zip(plain, compiled, strict=True):
        for array, array_too in zip(one, other, strict=True):
            assert np.array_equal(array, array_too)


SHUFFLE = kernel(shuffle_levels)


@given(st.floats(0, 1e300))
def test_the_bits_of_a_double_are_the_same_compiled(value):
    assert BITS(value) == bits_of(value)


BITS = kernel(lambda value: bits_of(value))


FIRST = """
import sys
import numba
import numpy as np
from equipoise import Scenario, resolve
from equipoise.sim.run import replicate

replicate(Scenario.simple(servers=2, load=0.5, tasks=10), resolve("jsq"), 0, kernel="memoryless")
print("scipy.linalg" in sys.modules)
print(numba.njit(lambda a: np.cov(a) - np.dot(a, a))(np.eye(2)).shape)
import scipy.linalg
"""


def test_a_first_run_does_without_scipy_and_what_needs_it_gets_it_later():
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("False\n(2, 2)\n", "")


AGAIN = """
import sys
from equipoise import Scenario, resolve
from equipoise.compile import counters
from equipoise.sim.run import replicate

replicate(Scenario.simple(servers=2, load=0.5, tasks=10), resolve("jsq"), 0, kernel="memoryless")
print(counters.misses, "numba.np.arraymath" in sys.modules)
"""


def test_a_kernel_found_on_disk_loads_nothing_to_compile_with(tmp_path):
    env = {**os.environ, "PYTHONPATH": SRC, "EQUIPOISE_CACHE": str(tmp_path)}
    said = [
        subprocess.run([sys.executable, "-c", AGAIN], env=env, capture_output=True, text=True)
        for _ in range(2)
    ]

    assert [done.stdout.split() for done in said] == [["1", "True"], ["0", "False"]]


MAKES_ARRAYS = """
import numpy as np
from equipoise.policies import Policy
from equipoise.policies.base import remember_nothing

def choose(state, fleet, rng):
    mine = np.zeros(3)
    mine[1] = 1.0
    return int(mine.sum())

MINE = Policy("mine", remember_nothing, choose)
"""
RUN_MINE = """
from numba.core.runtime import rtsys
from equipoise import Scenario, resolve
from equipoise.sim.run import replicate

scenario = Scenario.simple(servers=3, discipline="pool", load=0.5, tasks=500)
done = replicate(scenario, resolve("mine.py:MINE"), 0, kernel="memoryless")
stats = rtsys.get_allocation_stats()
print(done.arrived, stats.alloc - stats.free, stats.alloc >= 500)
"""


COMPILED = "import numba\n" + MAKES_ARRAYS.replace("def choose", "@numba.njit\ndef choose")


@pytest.mark.parametrize("process", ["that compiles", "that finds it on disk"])
@pytest.mark.parametrize("policy", [MAKES_ARRAYS, COMPILED], ids=["plain", "compiled by numba"])
def test_a_policy_of_the_users_may_make_arrays_and_they_are_freed(tmp_path, policy, process):
    (tmp_path / "mine.py").write_text(policy)
    env = {"PYTHONPATH": SRC, "EQUIPOISE_CACHE": str(tmp_path / "kernels"), "NUMBA_NRT_STATS": "1"}
    for _ in range(1 + (process == "that finds it on disk")):
        done = subprocess.run(
            [sys.executable, "-c", RUN_MINE],
            env={**os.environ, **env}, cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip

    assert done.stdout.split() == ["500", "0", "True"], done.stderr


def test_a_twin_is_made_once():
    assert twin(add_up) is twin(add_up)


def test_a_borrowed_tuple_is_the_tuple():
    def through(pair):
        pair = borrow(pair)
        pair[0][0] += pair[1][1]
        return pair[0][0]

    pair = (np.array([1.0]), np.array([2.0, 5.0]))

    assert borrow(pair) is pair
    assert kernel(through)(pair) == 6.0
    assert pair[0][0] == 6.0


@near(rng=4)
class Inner(NamedTuple):
    rng: np.ndarray
    many: np.ndarray


@near(counts=2)
class Outer(NamedTuple):
    counts: np.ndarray
    inner: Inner


def test_what_is_held_near_comes_back():
    def draw(whole, times):
        held = nearby(whole)
        for i in range(times):
            held.counts[1] += below(held.inner.rng, 10)
            held.inner.many[i] = held.counts[1]
        before = whole.counts[1]
        give_back(whole, held)
        return before

    def make():
        return Outer(np.array([3, 0]), Inner(make_rng(5), np.zeros(4, np.int64)))

    plain, compiled = make(), make()
    draw(plain, 4)

    assert kernel(draw)(compiled, 4) == 0, "until then only the copies change"
    assert compiled.counts.tolist() == plain.counts.tolist()
    assert compiled.inner.rng.tolist() == plain.inner.rng.tolist()
    assert compiled.inner.many.tolist() == plain.inner.many.tolist()


def test_an_array_that_is_longer_than_its_class_says_is_refused():
    def first(whole):
        return nearby(whole).counts[0]

    outer = Outer(np.zeros(3, np.int64), Inner(make_rng(5), np.zeros(4, np.int64)))

    with pytest.raises(ValueError, match="counts is held near as 2 elements"):
        kernel(first)(outer)


def test_a_view_at_an_address_is_the_tuple_itself():
    def move(pair, amount):
        pair[0][0] += amount
        return pair[0][0] + pair[1][1]

    pair = (np.array([1]), np.array([2, 5]))
    record = keep_view(pair)

    found = by_address(move, pair, 1)(record.ctypes.data, 10)

    assert found == 16
    assert pair[0][0] == 11


def test_memory_is_asked_for_ahead_of_time_and_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path))  # what is found on disk shows no code

    def read(array, i):
        hurry(array, np.uintp(i))
        return array[i]

    made, numbers = kernel(read), np.arange(10.0)

    assert made(numbers, 3) == read(numbers, 3) == 3.0
    assert list(numbers) == list(range(10))
    assert "prefetch" in "".join(made.inspect_llvm().values())
