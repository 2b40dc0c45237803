"""A user's own policy: as good as a built-in one, and every mistake in it told in one line."""

import os
import subprocess
import sys
import textwrap

import pytest
from exact import chain

import equipoise as eq
from equipoise.errors import EquipoiseError, PolicyError
from equipoise.policies import load_policy, resolve
from equipoise.policies.user import try_plain

NEIGHBOURS = """
from equipoise.policies import Policy, ask
from equipoise.rng import below

def choose(state, fleet, rng):
    left = below(rng, fleet.size)
    right = left + 1 if left + 1 < fleet.size else 0
    return left if ask(fleet, left) <= ask(fleet, right) else right

NEIGHBOURS = Policy("neighbours", choose=choose, probes=True)
"""

TWO_DRAWS = """
from equipoise.policies import Policy, ask
from equipoise.rng import below

def choose(state, fleet, rng):
    best = below(rng, fleet.size)
    shortest = ask(fleet, best)
    other = below(rng, fleet.size)
    return other if ask(fleet, other) < shortest else best

MINE = Policy("mine", choose=choose, probes=True)
"""

ANYONE = """
from equipoise.policies import Policy
from equipoise.rng import below

MINE = Policy("mine", choose=lambda state, fleet, rng: below(rng, fleet.size))
"""

BELOW = '''
"""jbt once more, with a parameter, memory and messages."""
from typing import NamedTuple
import numpy as np
from equipoise.policies import Policy
from equipoise.policies.levels import Bands, demote, make_bands, set_band
from equipoise.rng import below

class Params(NamedTuple):
    bound: int

class State(NamedTuple):
    par: Params
    bands: Bands

def init(bounds, speeds, announcement, bound=2):
    return State(Params(bound), make_bands(np.asarray(bounds) >= bound, 2)), 0

def choose(state, fleet, rng):
    known = state.bands.end[0]
    return demote(state.bands, below(rng, known)) if known > 0 else np.int32(below(rng, fleet.size))

def hear(state, server, m):
    set_band(state.bands, server, 0 if m <= state.par.bound else 1)

def tell(length, announcement, params, rng):
    return params.bound if length < params.bound else 0

def tell_finish(length, announcement, params, rng):
    return params.bound if length == params.bound - 1 else 0

MINE = Policy("mine", init, choose, hear, tell_start=tell, tell_finish=tell_finish, tell_state=tell)
'''


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a policy's file; return how it is named on the command line, from its folder."""
    monkeypatch.chdir(tmp_path)

    def written(text, name="MINE", file="mine.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(textwrap.dedent(text))
        return f"{file}:{name}"

    return written


def small(**given):
    return eq.Scenario.simple(
        **{"servers": 10, "discipline": "fcfs", "load": 0.8, "tasks": 20_000, "replications": 4}
        | given
    )


def numbers(policy):
    """Everything measured of one policy, by name."""
    return {name: (e.value, e.error) for name, e in policy.metrics.items()} | policy.messages


def refusal(act, *arguments):
    """The one line that says what is wrong."""
    with pytest.raises(PolicyError) as caught:
        act(*arguments)
    text = str(caught.value)
    assert text
    assert "\n" not in text
    return text


# -- it works ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
@pytest.mark.parametrize(
    ("text", "given", "built_in"),
    [
        (ANYONE, "", "random"),
        (TWO_DRAWS, "", "jsq-d(replacement=true)"),
        (BELOW, "", "jbt"),
        (BELOW, "(bound=4)", "jbt(r=4)"),
    ],
    ids=["random", "jsq-d", "jbt", "jbt(r=4)"],
)
def test_it_does_what_the_built_in_policy_of_the_same_rule_does(
    write, text, given, built_in, kernel
):
    """Not nearly: every number is the same, from the same seed."""
    compared = eq.compare(small(), [write(text) + given, built_in], kernel=kernel)

    mine, theirs = sorted(compared.policies, key=lambda policy: policy.name != "mine")
    assert numbers(mine) == numbers(theirs)
    assert mine.label == f"mine{given}"


def test_the_shorter_of_two_neighbours_on_two_servers_is_the_shorter_of_all(write):
    """With two servers the rule is jsq, whose mean is known exactly."""
    done = eq.simulate(small(servers=2, tasks=100_000), write(NEIGHBOURS, "NEIGHBOURS"))

    estimate = done.metrics["mean_tasks"]
    exact = chain("jsq", servers=2, rate=1.6).mean_tasks
    assert abs(estimate.value - exact) <= 4 * estimate.error / 3.18  # Student, 3 degrees, 95 %


def test_ten_lines_run_in_a_comparison_and_are_charged_for_their_questions(write):
    compared = eq.compare(small(), ["jsq-d", write(NEIGHBOURS, "NEIGHBOURS"), "random"])

    by_name = {policy.name: policy for policy in compared.policies}
    assert len([line for line in NEIGHBOURS.splitlines() if line.strip()]) <= 10
    assert by_name["neighbours"].messages["probe"] == 4
    assert [policy.name for policy in compared.policies] == ["jsq-d", "neighbours", "random"]


def test_it_runs_on_pools_with_a_limit_and_under_any_law(write):
    name = write(NEIGHBOURS, "NEIGHBOURS")
    scenario = eq.Scenario.simple(
        servers=10,
        discipline="pool",
        load=3.5,
        limit=4,
        service="lognormal(mean=1, scv=4)",
        tasks=5000,
        replications=2,
    )

    result = eq.simulate(scenario, name)

    assert result.kernel == "events"
    assert 0 < result.metrics["lost"].value < 1
    assert result.metrics["max_tasks"].value == 4


def test_a_policy_object_is_as_good_as_its_name(write):
    name = write(NEIGHBOURS, "NEIGHBOURS")
    policy = load_policy("mine.py", "NEIGHBOURS")

    by_object, by_name = (eq.simulate(small(), one).policies[0] for one in (policy, name))
    assert numbers(by_object) == numbers(by_name)


def test_two_files_of_one_name_do_not_meet(write):
    """Nor do their classes of one name: that of the first is no longer found by its name."""
    text = BELOW.replace("State", "Memory")
    one = write(text, file="one/mine.py")
    other = write(text.replace("MINE = Policy(\"mine\"", "MINE = Policy(\"other\"")
                  .replace("bound=2", "bound=4"), file="other/mine.py")  # fmt: skip

    compared = eq.compare(small(tasks=5000), [one, other, "jbt", "jbt(r=4)"])

    found = {policy.label: numbers(policy) for policy in compared.policies}
    assert found["mine"] == found["jbt(r=2)"]
    assert found["other"] == found["jbt(r=4)"]


SCRIPT = """
from typing import NamedTuple
import numpy as np
import equipoise as eq
from equipoise.compile import counters
from equipoise.policies import NO_PARAMS, NoParams, Policy

class State(NamedTuple):
    par: NoParams
    turn: np.ndarray

def init(bounds, speeds, announcement):
    return State(NO_PARAMS, np.zeros(1, np.int64)), 0

def choose(state, fleet, rng):
    state.turn[0] = (state.turn[0] + 1) % fleet.size
    return state.turn[0]

mine = Policy("mine", init, choose)
eq.simulate(eq.Scenario.simple(servers=5, load=0.5, tasks=2000, replications=1), mine)
print(counters.hits + counters.misses)
"""


def test_a_policy_made_in_a_script_is_compiled_or_found_once_in_every_process(tmp_path):
    """A class of `__main__` cannot be found again by its name; a kernel kept with such a class
    fits no later process and must not be looked up again at every call."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {"EQUIPOISE_CACHE": str(tmp_path / "kernels")}

    for _ in range(2):
        done = subprocess.run(
            [sys.executable, script], env=environment, capture_output=True, text=True, check=True
        )
        assert int(done.stdout) <= 2


def test_an_edited_file_is_read_again(write):
    scenario = small(tasks=2000)
    before = eq.simulate(scenario, write(ANYONE))

    after = eq.simulate(scenario, write(ANYONE.replace("below(rng, fleet.size)", "0")))

    assert before.metrics["max_tasks"].value < after.metrics["max_tasks"].value


# -- what is wrong with it --------------------------------------------------------------------


def test_a_file_that_is_not_there(write):
    write(ANYONE)

    assert refusal(resolve, "yours.py:MINE") == (
        "yours.py: no such file; a user's policy is written file.py:NAME"
    )


def test_a_folder_is_not_a_file(tmp_path):
    assert str(tmp_path) in refusal(resolve, f"{tmp_path}:MINE")


def test_a_name_that_is_not_in_it(write):
    write(BELOW + "\nOTHER = Policy('other', choose=choose)\n")

    assert refusal(resolve, "mine.py:MNIE") == (
        "mine.py has no policy called MNIE; the policies in it are: MINE, OTHER"
    )


def test_a_name_that_is_no_policy(write):
    name = write("def MINE(state, fleet, rng):\n    return 0\n")

    assert refusal(resolve, name) == (
        "mine.py has no policy called MINE; the policies in it are: none"
    )


def test_a_syntax_error(write):
    said = refusal(resolve, write("x = 1\ndef choose(state, fleet, rng)\n    return 0\n"))

    assert said.startswith("mine.py line 2: SyntaxError: ")


def test_a_file_that_raises(write):
    said = refusal(resolve, write("import math\n\nmath.sqrt(-1)\n"))

    assert said == "mine.py line 3: ValueError: math domain error"


def test_an_import_that_fails(write):
    said = refusal(resolve, write("from nowhere_at_all import thing\n"))

    assert said == "mine.py line 1: ModuleNotFoundError: No module named 'nowhere_at_all'"


def test_bytes_that_are_no_text(write, tmp_path):
    name = write("")
    (tmp_path / "mine.py").write_bytes(b"x = '\xff\xfe'\n")

    assert refusal(resolve, name).startswith("mine.py line 1: SyntaxError: ")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(write, tmp_path):
    name = write(ANYONE)
    (tmp_path / "mine.py").chmod(0)

    assert refusal(resolve, name).startswith("mine.py: PermissionError: ")


def test_a_policy_that_cannot_choose(write):
    name = write("from equipoise.policies import Policy\n\nMINE = Policy('mine')\n")

    assert refusal(resolve, name) == "mine.py: policy 'mine' has no choose(state, fleet, rng)"


def test_a_parameter_that_it_does_not_have(write):
    name = write(BELOW)

    assert refusal(resolve, f"{name}(bond=3)") == (
        "mine has no parameter 'bond'; its parameters are: bound; did you mean 'bound'?"
    )
    assert refusal(resolve, f"{name}(bound=2.5)") == "mine: bound = 2.5 must be a whole number"


BROKEN = {
    "it raises": (
        """
        from equipoise.policies import Policy

        def choose(state, fleet, rng):
            return 1 // 0

        MINE = Policy("mine", choose=choose)
        """,
        "mine.py:MINE line 5: ZeroDivisionError: integer division or modulo by zero",
    ),
    "it asks without saying so": (
        """
        from equipoise.policies import Policy, ask

        def choose(state, fleet, rng):
            return 0 if ask(fleet, 0) == 0 else 1

        MINE = Policy("mine", choose=choose)
        """,
        "mine.py:MINE line 5: AttributeError: 'Blind' object has no attribute 'asked'; "
        "a policy that asks for lengths must say so: Policy(..., probes=True)",
    ),
    "it asks a server that is not there": (
        """
        from equipoise.policies import Policy, ask

        def choose(state, fleet, rng):
            return 0 if ask(fleet, fleet.size) == 0 else 1

        MINE = Policy("mine", choose=choose, probes=True)
        """,
        "mine.py:MINE line 5: IndexError: ask(fleet, server): no such server",
    ),
    "it names a server beyond the last": (
        """
        from equipoise.policies import Policy
        from equipoise.rng import below

        def choose(state, fleet, rng):
            return 1 + below(rng, fleet.size)

        MINE = Policy("mine", choose=choose)
        """,
        "mine.py:MINE: choose returned a server that does not exist; "
        "servers are whole numbers from 0 to 9",
    ),
    "it names a server before the first": (
        """
        from equipoise.policies import Policy

        MINE = Policy("mine", choose=lambda state, fleet, rng: -1)
        """,
        "mine.py:MINE: choose returned a server that does not exist; "
        "servers are whole numbers from 0 to 9",
    ),
    "init has too few arguments": (
        """
        from equipoise.policies import Policy

        def init(bounds):
            return None, 0

        MINE = Policy("mine", init, lambda state, fleet, rng: 0)
        """,
        "mine.py:MINE: TypeError: ",
    ),
    "init forgets the announcement": (
        """
        from typing import NamedTuple
        from equipoise.policies import NO_PARAMS, NoParams, Policy

        class State(NamedTuple):
            par: NoParams

        def init(bounds, speeds, announcement):
            return State(NO_PARAMS)

        MINE = Policy("mine", init, lambda state, fleet, rng: 0)
        """,
        "mine.py:MINE: ValueError: not enough values to unpack (expected 2, got 1)",
    ),
    "it returns nothing": (
        """
        from equipoise.policies import Policy

        MINE = Policy("mine", choose=lambda state, fleet, rng: None)
        """,
        "mine.py:MINE: ",
    ),
    "it returns a fraction": (
        """
        from equipoise.policies import Policy

        MINE = Policy("mine", choose=lambda state, fleet, rng: fleet.size / 3)
        """,
        "mine.py:MINE: ",
    ),
    "it returns no number at all": (
        """
        from equipoise.policies import Policy

        MINE = Policy("mine", choose=lambda state, fleet, rng: float("nan"))
        """,
        "mine.py:MINE: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BROKEN)
def test_a_mistake_is_found_before_anything_is_compiled(write, what):
    text, said = BROKEN[what]
    name = write(text)

    assert refusal(try_plain, resolve(name), 10).startswith(said)
    assert refusal(eq.simulate, small(), name).startswith(said)
    assert refusal(eq.compare, small(), ["jsq", name]).startswith(said)


RARE = {
    "raises": (
        """
        from equipoise.policies import Policy, ask
        from equipoise.rng import below

        def choose(state, fleet, rng):
            server = below(rng, fleet.size)
            return server if ask(fleet, server) < 60 else ask(fleet, -1)

        MINE = Policy("mine", choose=choose, probes=True)
        """,
        "mine.py:MINE raised IndexError: ask(fleet, server): no such server",
    ),
    "leaves the fleet": (
        """
        from equipoise.policies import Policy, ask
        from equipoise.rng import below

        def choose(state, fleet, rng):
            server = below(rng, fleet.size)
            return server if ask(fleet, server) < 60 else fleet.size

        MINE = Policy("mine", choose=choose, probes=True)
        """,
        "mine.py:MINE: choose returned a server that does not exist; "
        "servers are whole numbers from 0 to 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kernel", ["memoryless", "events"])
@pytest.mark.parametrize("what", RARE)
def test_a_mistake_that_shows_only_after_long_is_told_as_well(write, what, kernel):
    """From a length of 60 on, which no trial reaches: the compiled kernel comes upon it."""
    text, said = RARE[what]
    name = write(text)
    scenario = small(servers=2, load=1.4, discipline="pool", start=[70, 70])

    assert refusal(lambda: eq.simulate(scenario, name, kernel=kernel)) == said


UNCOMPILED = """
from equipoise.policies import Policy, ask

def choose(state, fleet, rng):
    return min(range(fleet.size), key=lambda server: ask(fleet, server))

MINE = Policy("mine", choose=choose, probes=True)
"""


def test_what_does_not_compile_is_refused_with_numbas_reason(write):
    said = refusal(eq.simulate, small(), write(UNCOMPILED))

    assert said.startswith("mine.py:MINE does not compile: ")
    assert len(said) < 400


def test_a_policy_object_is_refused_in_one_line_too(write):
    write(UNCOMPILED)

    said = refusal(eq.simulate, small(), load_policy("mine.py", "MINE"))

    assert said.startswith("mine does not compile: ")


def test_a_policy_that_needs_what_is_not_supplied_is_refused(write):
    name = write("""
        from equipoise.policies import Policy

        MINE = Policy("mine", choose=lambda state, fleet, rng: 0, needs=frozenset({"colors"}))
    """)

    with pytest.raises(EquipoiseError) as caught:
        eq.simulate(small(), name)

    assert "colors" in str(caught.value)
    assert "\n" not in str(caught.value)
