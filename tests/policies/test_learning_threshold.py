"""learning-threshold: when it moves, by how much, and what is known after a move."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policies.play import Play, colors

from equipoise.errors import PolicyError
from equipoise.policies import resolve
from equipoise.policies.learning_threshold import alpha_of


def learning(lengths, *, seed=1, announcement=None, limit=None, **params):
    table = {"name": "learning-threshold", **params}
    return Play(table, lengths, seed=seed, announcement=announcement, limit=limit)


def moved(level, step, alpha, rule, before, after):
    """The threshold after an arrival that took the lengths from `before` to `after`.

    alpha is a fraction, so that "at most alpha n" means what it says.
    """
    n = len(before)

    def at_least(lengths, j):
        return sum(length >= j for length in lengths)

    if rule == "tokens":  # before the task was placed
        if n - at_least(before, level + step) <= 1:
            return level + step
        if level >= step and at_least(before, level) <= alpha * n:
            return level - step
        return level
    if at_least(after, level + step) == n:
        level += step
    if level >= step and at_least(after, level) <= alpha * n + 1:
        level -= step
    return level


# -- the rule ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lengths", "level", "expected"),
    [
        ([3, 3, 3, 3, 3], 2, 3),  # no yellow token: h or more everywhere
        ([3, 3, 2, 3, 3], 2, 3),  # one yellow token
        ([3, 3, 0, 3, 3], 2, 3),  # one yellow token that is green as well
        ([3, 3, 2, 2, 3], 2, 2),  # two yellow ones: stay
        ([2, 2, 2, 1, 0], 2, 1),  # three of five have 2 or more, alpha n = 3: down
        ([2, 2, 2, 2, 0], 2, 2),  # four: stay
        ([0, 0, 0, 0, 0], 1, 0),
        ([0, 0, 0, 0, 0], 0, 0),  # never below 0
        ([1, 1, 1, 1, 0], 0, 1),  # from the start state of most runs
    ],
)
def test_the_threshold_follows_the_tokens_held_before_the_task_came(lengths, level, expected):
    play = learning(lengths, alpha=0.6, level=level)

    play.come()

    assert play.level == expected
    assert play.state.known[0] == expected
    assert play.counted("changes") == play.counted("announcements") == (expected != level)


@pytest.mark.parametrize(
    ("lengths", "level", "expected"),
    [
        ([3, 3, 2, 3, 3], 2, 3),  # the task fills the last one: up
        ([3, 3, 1, 3, 3], 2, 2),  # it does not
        ([3, 3, 2, 2, 3], 2, 2),
        ([2, 2, 2, 1, 0], 2, 1),  # one of two green servers is filled: at most 3 + 1 have 2
        ([2, 2, 2, 2, 1], 2, 2),  # all five have
        ([0, 0, 0, 0, 0], 1, 0),
        ([0, 0, 0, 0, 0], 0, 0),
    ],
)
def test_the_authors_program_looks_after_the_task_was_placed(lengths, level, expected):
    play = learning(lengths, alpha=0.6, level=level, rule="program")

    play.come()

    assert play.level == expected


def test_in_the_authors_program_an_increase_may_be_undone_by_the_same_arrival():
    """alpha n + 1 >= n: all have h, and all having the new l is still too few."""
    play = learning([2, 1, 2, 2], alpha=0.74, level=1, rule="program")
    assert play.spec.params["alpha"] * 4 + 1 < 4

    play.come()
    assert play.level == 2

    play = learning([2, 1, 2, 2], alpha=0.75, level=1, rule="program")
    play.come()
    assert play.level == 1
    assert play.counted("announcements") == 0


def test_the_task_itself_goes_by_the_old_threshold():
    """One yellow token, so the threshold moves; but the task uses that token."""
    for seed in range(20):
        play = learning([3, 3, 2, 3, 3], alpha=0.6, level=2, seed=seed)

        assert play.come() == 2
        assert play.level == 3


@pytest.mark.parametrize("rule", ["tokens", "program"])
@given(
    lengths=st.lists(st.integers(0, 6), min_size=2, max_size=7),
    percent=st.integers(1, 98),
    step=st.integers(1, 3),
    steps=st.integers(0, 3),
    seed=st.integers(0, 2**32),
)
def test_it_moves_exactly_when_the_true_lengths_say_so(rule, lengths, percent, step, steps, seed):
    play = learning(
        lengths, alpha=percent / 100, step=step, level=step * steps, rule=rule, seed=seed
    )
    alpha = Fraction(percent, 100)

    before, level = lengths, step * steps
    for what, _ in play.events(40, load=3, seed=seed):
        if what == "come":
            level = moved(level, step, alpha, rule, before, play.lengths)
        before = play.lengths

        assert play.level == level


@pytest.mark.parametrize("percent", range(1, 99))
def test_at_most_alpha_n_holds_where_alpha_n_is_whole(percent):
    """In floating point (1 - 0.97) * 100 is 3.0000000000000027 and 0.57 * 100 is
    56.99999999999999; neither may decide."""
    n = 100
    exactly = learning([2] * percent + [1] * (n - percent), alpha=percent / 100, level=2)
    one_more = learning([2] * (percent + 1) + [1] * (n - percent - 1), alpha=percent / 100, level=2)

    exactly.come()
    one_more.come()

    assert exactly.level == 1
    assert one_more.level == 2


@pytest.mark.parametrize("max_load", [1, 2, 3, 4, 6, 9])
def test_at_most_alpha_n_holds_for_an_alpha_made_of_a_load(max_load):
    n = 10 * (max_load + 1)
    exactly = learning([2] * (10 * max_load) + [1] * 10, max_load=max_load, level=2)
    one_more = learning([2] * (10 * max_load + 1) + [1] * 9, max_load=max_load, level=2)
    assert len(exactly.lengths) == n

    exactly.come()
    one_more.come()

    assert exactly.level == 1
    assert one_more.level == 2


# -- tokens -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["tokens", "program"])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_tokens_are_the_colors_of_the_true_lengths_through_all_changes(rule, step):
    play = learning([0, 4, 1, 9, 2, 0, 3, 3], alpha=0.7, step=step, rule=rule)

    for _ in play.events(1500, load=4, seed=step):
        assert play.bands == colors(play.lengths, play.level, play.level + step)

    assert play.counted("changes") >= 5


@pytest.mark.parametrize(
    ("lengths", "level", "step"),
    [([3, 3, 2, 3, 4], 2, 1), ([3, 3, 1, 3, 4], 2, 1), ([5, 0, 5, 6, 5], 2, 3)],
)
def test_going_up_yellow_becomes_green_and_nobody_is_yellow_before_the_answers(
    lengths, level, step
):
    """Promises that stay true; who has the new yellow tokens is for the servers to say."""
    play = learning(lengths, alpha=0.6, level=level, step=step)
    play.choose()
    kept = [0 if band < 2 else 2 for band in play.bands]

    assert play.policy.adapt(play.state) == level + step
    assert play.bands == kept

    play = learning(lengths, alpha=0.6, level=level, step=step)
    play.come()
    assert play.bands == colors(play.lengths, level + step, level + 2 * step)


@pytest.mark.parametrize("step", [1, 2])
def test_going_down_green_becomes_yellow_and_yellow_nothing(step):
    level = 2 * step
    lengths = [0, step - 1, level, level - 1, level + step]
    play = learning(lengths, alpha=0.6, level=level, step=step)
    assert play.bands == [0, 0, 1, 0, 2]
    assert play.choose() in (0, 1, 3)
    bands = [min(band + 1, 2) for band in play.bands]

    assert play.policy.adapt(play.state) == level - step
    assert play.bands == bands


def test_every_server_below_the_new_h_answers_an_announcement_once_in_order():
    play = learning([3, 1, 3, 3, 3, 4], alpha=0.6, level=2)

    play.said(play.come)

    assert play.level == 3
    # the one that was joined had 1 and now 2 tasks: nothing on joining (l = 2, h = 3)
    assert play.heard == [(0, 4), (1, 3), (2, 4), (3, 4), (4, 4)]
    assert play.counted("answer") == 5
    assert play.counted("announcements") == 1


def test_answers_are_as_many_as_servers_below_h_at_each_change():
    play, answers = learning([0] * 7, alpha=0.7), 0

    level = 0
    for _ in play.events(1500, load=3, seed=2):
        if play.level != level:
            level = play.level
            answers += sum(length < level + 1 for length in play.lengths)

    assert play.counted("answer") == answers > 0
    assert play.counted("announcements") == play.counted("changes") > 5


def test_a_lost_task_gives_its_token_back_and_teaches_nothing():
    play = learning([2, 2, 2, 2], alpha=0.5, level=2, step=2, limit=2)

    for _ in range(20):
        assert play.come() < 0
        assert play.bands == [1, 1, 1, 1]

    assert play.level == 2


def test_from_empty_it_climbs_one_by_one_to_the_load():
    """n = 200, load 3.5: alpha (K + 1) > load holds it at K = 3."""
    play, levels = learning([0] * 200, alpha=0.925), [0]

    for _ in play.events(6000, load=3.5, seed=1):
        if play.level != levels[-1]:
            levels.append(play.level)

    assert levels == [0, 1, 2, 3]


# -- where it starts, and starts again --------------------------------------------------------


def test_a_learnt_threshold_survives_when_servers_come_and_go():
    play = learning([3, 4, 5, 0], alpha=0.6, level=1, announcement=4)

    assert play.level == 4
    assert play.state.known[0] == 4
    assert play.bands == colors([3, 4, 5, 0], 4, 5)


def test_left_alone_with_one_server_it_learns_nothing():
    """That server would always have at most one yellow token."""
    play = learning([0], alpha=0.6, level=1, announcement=3)

    for _ in play.events(50, load=5, seed=1):
        assert play.level == 3


# -- alpha ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("servers", "given", "alpha"),
    [
        (100, {"alpha": 0.925}, 0.925),
        (100, {"max_load": 4}, 0.8),
        (100, {}, 10 / 11),  # made for a load of 10
        (22, {}, 10 / 11),
        (20, {}, 0.9),  # but never beyond 1 - 2/n
        (2, {}, 0.0),
    ],
)
def test_alpha_is_given_or_made_of_the_largest_load_or_of_10(servers, given, alpha):
    assert alpha_of(servers, **given) == pytest.approx(alpha, rel=1e-12)
    resolve({"name": "learning-threshold", **given}).check(servers)


@pytest.mark.parametrize(
    ("servers", "params", "said"),
    [
        (100, "alpha=0.99", "alpha = 0.99 >= 1 - 1/n = 0.99 for 100 servers"),
        (10, "alpha=0.95", "alpha = 0.95 >= 1 - 1/n = 0.9 for 10 servers"),
        (10, "max_load=10", "alpha = 0.9091 >= 1 - 1/n = 0.9 for 10 servers"),
        (100, "alpha=0.5, max_load=3", "alpha and max_load say the same thing twice"),
        (1, "level=3", "one server leaves nothing to balance or learn; use 2 or more"),
    ],
)
def test_an_alpha_that_undoes_every_increase_is_refused(servers, params, said):
    spec = resolve(f"learning-threshold({params})")

    with pytest.raises(PolicyError) as caught:
        spec.check(servers)

    text = str(caught.value)
    assert text.startswith(f"{spec.label}: {said}")
    assert "\n" not in text


def test_alpha_just_below_the_bound_is_taken():
    resolve("learning-threshold(alpha=0.98)").check(100)
    resolve("learning-threshold(alpha=0.99)").check(101)
    resolve("learning-threshold").check(2)
