"""What can be written for a policy, what comes of it, and what is refused in which words."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import equipoise as eq
from equipoise.errors import PolicyError
from equipoise.policies import (
    CONSTRUCTORS,
    POLICIES,
    Param,
    Policy,
    parse,
    resolve,
    spec,
    split_list,
    unique_labels,
)

NAMES = (
    "random, round-robin, jsq, jsq-d, sampled, sed, ll-d, jiq, sparsified-jiq, jbt, threshold, "
    "learning-threshold, total-threshold, sujsq-det, sujsq-exp, aujsq-det, aujsq-exp, stale-jsq"
)


def refusal(act, *arguments, **given):
    """The one line that says what is wrong."""
    with pytest.raises(PolicyError) as caught:
        act(*arguments, **given)
    text = str(caught.value)
    assert text
    assert "\n" not in text
    return text


def anything(state, fleet, rng):
    return 0


def with_params(**params):
    """A policy with these parameters."""
    return Policy("mine", choose=anything, params=params)


# -- labels -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("jsq", "jsq"),
        ("jsq()", "jsq"),
        ("jsq-d", "jsq-d(d=2)"),
        ("jsq-d(replacement=true)", "jsq-d(d=2, replacement=true)"),
        ("jsq-d(replacement=false, d=3)", "jsq-d(d=3)"),
        ("jbt", "jbt(r=2)"),
        (" threshold( level = 9 ) ", "threshold(level=9)"),
        ("threshold(step=1, level=9)", "threshold(level=9)"),
        ("threshold(level=9,step=2)", "threshold(level=9, step=2)"),
        ("learning-threshold", "learning-threshold"),
        ("learning-threshold(alpha=0.925)", "learning-threshold(alpha=0.925)"),
        ("learning-threshold(max_load=10)", "learning-threshold(max_load=10)"),
        ("learning-threshold(rule='program')", "learning-threshold(rule=program)"),
        ("learning-threshold(alpha=none)", "learning-threshold"),
        ({"name": "jsq-d", "d": 3}, "jsq-d(d=3)"),
        ({"name": "threshold(level=9)", "step": 2}, "threshold(level=9, step=2)"),
        (eq.Threshold(level=9), "threshold(level=9)"),
        (eq.Threshold(9, 2), "threshold(level=9, step=2)"),
        (eq.JsqD(d=3, replacement=True), "jsq-d(d=3, replacement=true)"),
        (eq.LearningThreshold(max_load=4.5, rule="program"),
         "learning-threshold(max_load=4.5, rule=program)"),
        (POLICIES["jiq"], "jiq"),
        (spec(POLICIES["jiq"]), "jiq"),
    ],
)  # fmt: skip
def test_a_policy_is_labelled_by_what_sets_it_apart(written, label):
    assert resolve(written).label == label
    assert str(resolve(written)) == label


@given(
    alpha=st.floats(1e-9, 1 - 1e-9) | st.none(),
    step=st.integers(1, 10**6),
    level=st.integers(0, 10**6),
    rule=st.sampled_from(("tokens", "program")),
)
def test_a_label_says_all_that_is_needed_to_write_the_policy_again(alpha, step, level, rule):
    """Two policies that differ can be told apart, and a label can be pasted into a command."""
    made = eq.LearningThreshold(alpha=alpha, step=step, level=level, rule=rule)

    assert resolve(made.label).params == made.params


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_a_constructor_that_says_the_same_as_its_label(name):
    made = CONSTRUCTORS["".join(word.capitalize() for word in name.split("-"))]
    required = {"level": 3, "law": "0+1:0.7, 2:0.3"}
    given = {p: required[p] for p, param in POLICIES[name].params.items() if param.default is ...}

    assert made(**given).params == spec(POLICIES[name], **given).params
    assert resolve(made(**given).label).params == made(**given).params


def test_the_same_policy_twice_is_refused_and_the_same_with_other_parameters_is_not():
    both = [resolve("jsq-d"), resolve("jsq-d(d=3)")]

    assert unique_labels(both) == ["jsq-d(d=2)", "jsq-d(d=3)"]
    assert refusal(unique_labels, [*both, resolve("jsq-d(d=2)")]) == (
        "jsq-d(d=2) is listed twice; leave one out"
    )


# -- parsing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "params"),
    [
        ("jsq", "jsq", {}),
        ("threshold(level=9, step=2)", "threshold", {"level": 9, "step": 2}),
        ("a(x=0.5, y=1e-3, z=-2)", "a", {"x": 0.5, "y": 0.001, "z": -2}),
        ("a(x=true, y=False, z=none)", "a", {"x": True, "y": False, "z": None}),
        ("a(x=word, y='quoted word')", "a", {"x": "word", "y": "quoted word"}),
        ("my policies/mine.py:NAME(reach=2)", "my policies/mine.py:NAME", {"reach": 2}),
        ("a(x=[1, 2])", "a", {"x": "[1, 2]"}),
    ],
)
def test_a_label_is_a_name_and_parameters_in_brackets(text, name, params):
    parsed = parse(text)

    assert parsed == (name, params)
    assert [type(value) for value in parsed[1].values()] == [type(v) for v in params.values()]


@pytest.mark.parametrize("text", ["", "  ", "()", "jsq-d(d=2", "jsq-d)d=2(", "jsq-d(d=2) extra"])
def test_what_is_not_a_policy_is_refused_with_the_form_it_should_have(text):
    said = refusal(parse, text)

    assert said == f"'{text}' is not a policy; write it as name or name(key=value)"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("jsq-d(3)", "3"),
        ("jsq-d(d=)", "d="),
        ("jsq-d(=3)", "=3"),
        ("threshold(level=1, step)", "step"),
    ],
)
def test_a_parameter_without_name_or_value_is_pointed_at(text, part):
    assert refusal(parse, text) == f"'{text}': '{part}' should read key=value"


def test_a_parameter_given_twice_is_refused():
    text = "threshold(level=1, level=2)"

    assert refusal(parse, text) == f"'{text}': level is given twice"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("jsq", ["jsq"]),
        ("jsq,random", ["jsq", "random"]),
        (" jsq , threshold(level=9, step=2) ,", ["jsq", "threshold(level=9, step=2)"]),
        ("a(x=[1,2]),b", ["a(x=[1,2])", "b"]),
        ("", []),
        (" , ", []),
    ],
)
def test_a_list_is_split_at_the_commas_outside_brackets(text, parts):
    assert split_list(text) == parts


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("treshold(level=9)", " (did you mean 'threshold'?)"),
        ("jsq-D", " (did you mean 'jsq-d'?)"),
        ("round_robin", " (did you mean 'round-robin'?)"),
        ("xyzzy", ""),
        ({"name": "jqs"}, " (did you mean 'jsq'?)"),
    ],
)
def test_an_unknown_policy_is_refused_with_the_nearest_and_all_names(written, hint):
    name = written["name"] if isinstance(written, dict) else written.partition("(")[0]

    assert refusal(resolve, written) == (
        f"no policy is called '{name}'{hint}; the policies are: {NAMES}"
    )


def test_a_table_without_a_name_is_refused():
    assert "name" in refusal(resolve, {"d": 3})


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("threshold(levle=9)",
         "threshold has no parameter 'levle'; its parameters are: level, step; "
         "did you mean 'level'?"),
        ("jsq-d(k=3)", "jsq-d has no parameter 'k'; its parameters are: d, replacement, sampling"),
        ("jsq(d=3)", "jsq has no parameter 'd'; its parameters are: none"),
        ("jsq(policy=3)", "jsq has no parameter 'policy'; its parameters are: none"),
        ({"name": "jsq", "self": 3}, "jsq has no parameter 'self'; its parameters are: none"),
    ],
)  # fmt: skip
def test_an_unknown_parameter_is_refused_with_those_there_are(written, said):
    assert refusal(resolve, written) == said


def test_a_required_parameter_left_out_is_asked_for():
    assert refusal(resolve, "threshold") == (
        "threshold needs level, a whole number >= 0: write threshold(level=1)"
    )


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("threshold(level=-1)", "threshold: level = -1 must be a whole number >= 0"),
        ("threshold(level=2.5)", "threshold: level = 2.5 must be a whole number >= 0"),
        ("threshold(level=9.0)", "threshold: level = 9.0 must be a whole number >= 0"),
        ("threshold(level=true)", "threshold: level = True must be a whole number >= 0"),
        ("threshold(level=high)", "threshold: level = 'high' must be a whole number >= 0"),
        ("threshold(level=none)", "threshold: level = None must be a whole number >= 0"),
        ("threshold(level=nan)", "threshold: level = nan must be a whole number >= 0"),
        ("threshold(level=1, step=0)", "threshold: step = 0 must be a whole number >= 1"),
        ("jsq-d(d=0)", "jsq-d: d = 0 must be a whole number >= 1"),
        ("jsq-d(replacement=1)", "jsq-d: replacement = 1 must be true or false"),
        ("jsq-d(replacement=yes)", "jsq-d: replacement = 'yes' must be true or false"),
        ("jbt(r=0)", "jbt: r = 0 must be a whole number >= 1"),
        ("learning-threshold(alpha=0)",
         "learning-threshold: alpha = 0.0 must be a number > 0 and < 1"),
        ("learning-threshold(alpha=1)",
         "learning-threshold: alpha = 1.0 must be a number > 0 and < 1"),
        ("learning-threshold(alpha=nan)",
         "learning-threshold: alpha = nan must be a number > 0 and < 1"),
        ("learning-threshold(max_load=inf)",
         "learning-threshold: max_load = inf must be a number > 0"),
        ("learning-threshold(max_load=-inf)",
         "learning-threshold: max_load = -inf must be a number > 0"),
        ("learning-threshold(rule=paper)",
         "learning-threshold: rule = 'paper' must be 'tokens' or 'program'"),
        ("learning-threshold(rule=1)",
         "learning-threshold: rule = 1 must be 'tokens' or 'program'"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_allowed_is_refused_with_what_is(written, said):
    assert refusal(resolve, written) == said


@pytest.mark.parametrize(
    "written",
    [f"threshold(level={10**30})", f"jbt(r={10**30})", f"learning-threshold(step={10**30})"],
)
def test_a_number_that_no_machine_word_holds_is_refused(written):
    assert "must be a whole number" in refusal(resolve, written)


def test_whole_numbers_and_words_of_a_table_are_checked_like_those_of_a_label():
    assert resolve({"name": "learning-threshold", "max_load": 10}).params["max_load"] == 10.0
    assert refusal(resolve, {"name": "jbt", "r": "2"}) == "jbt: r = '2' must be a whole number >= 1"
    assert refusal(resolve, {"name": "jbt", "r": [2]}) == "jbt: r = [2] must be a whole number >= 1"


@pytest.mark.parametrize(
    ("param", "words"),
    [
        (Param(1, int), "a whole number"),
        (Param(1, int, least=1), "a whole number >= 1"),
        (Param(0.5, float, above=0, below=1), "a number > 0 and < 1"),
        (Param(True, bool), "true or false"),
        (Param("a", str), "a word"),
        (Param("a", str, choices=("a", "b", "c")), "'a' or 'b' or 'c'"),
    ],
)
def test_what_is_allowed_is_said_in_words(param, words):
    assert param.allowed() == words


def test_a_bound_that_must_not_be_reached_is_out_and_one_that_may_is_in():
    policy = with_params(x=Param(0.5, float, above=0, below=1), k=Param(1, int, least=1))

    assert spec(policy, x=math.nextafter(0, 1), k=1).params["k"] == 1
    assert refusal(spec, policy, x=0).startswith("mine: x = 0.0 ")
    assert refusal(spec, policy, x=1).startswith("mine: x = 1.0 ")
    assert refusal(spec, policy, k=0).startswith("mine: k = 0 ")


# -- what a Policy must have ------------------------------------------------------------------


def test_a_policy_that_cannot_choose_is_refused():
    assert refusal(Policy, "mine") == "policy 'mine' has no choose(state, fleet, rng)"


def test_parameters_are_read_off_init_with_their_kinds():
    def init(bounds, speeds, announcement, reach=2, part=0.5, exact=True, how="so"):
        raise NotImplementedError

    params = Policy("mine", init, anything).params

    kinds = {name: (param.default, param.kind) for name, param in params.items()}
    assert kinds == {
        "reach": (2, int),
        "part": (0.5, float),
        "exact": (True, bool),
        "how": ("so", str),
    }


def test_a_parameter_of_init_without_a_default_or_of_another_kind_is_refused():
    def bare(bounds, speeds, announcement, reach):
        raise NotImplementedError

    def odd(bounds, speeds, announcement, reach=()):
        raise NotImplementedError

    assert refusal(Policy, "mine", bare, anything) == "init's parameter 'reach' needs a default"
    assert refusal(Policy, "mine", odd, anything) == (
        "init's parameter 'reach' must default to a number, truth or word"
    )


def test_a_policys_own_reason_is_told_with_its_label():
    assert refusal(resolve("jsq-d(d=5)").check, 4) == (
        "jsq-d(d=5): d = 5 is more than the 4 servers there are; use d <= 4"
    )
    assert resolve("jsq-d(d=4)").check(4) is None
