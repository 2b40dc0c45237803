"""sampled: the shortest of a set from a law, and the laws that are not."""

from collections import Counter

import pytest
from policies.play import Play, even

from equipoise.errors import PolicyError
from equipoise.policies import resolve
from equipoise.policies.law import law_sets, law_text
from equipoise.policies.sampled import Sampled


def chosen(play, tasks):
    return Counter(play.choose() for _ in range(tasks))


def test_sets_are_drawn_as_often_as_the_law_says():
    """One server in each set, so that the choice is the set."""
    play = Play("sampled(law={0:0.5, 2:0.3, 1:0.2})", [5, 0, 9])
    tasks = 8000
    found = chosen(play, tasks)

    for server, p in ((0, 0.5), (1, 0.2), (2, 0.3)):
        assert abs(found[server] - tasks * p) < 4 * (tasks * p * (1 - p)) ** 0.5


def test_the_shortest_of_the_set_is_taken_and_ties_are_uniform():
    play = Play("sampled(law={0+1+2+3:1})", [4, 1, 1, 1])
    found = chosen(play, 3000)

    assert set(found) == {1, 2, 3}
    assert even(list(found.values()))


def test_each_server_of_the_set_costs_a_question_and_an_answer():
    play = Play("sampled(law={0+1+2:0.5, 3:0.5})", [0] * 4)
    tasks = 4000
    for _ in range(tasks):
        play.choose()

    asked = play.counted("probe") / 2 / tasks
    assert abs(asked - 2) < 4 / tasks**0.5  # 3 or 1, half each: standard deviation 1


def test_all_pairs_alike_is_power_of_two_choices():
    pairs = {(i, j): 1 / 6 for i in range(4) for j in range(i)}
    spec = Sampled(pairs)
    play = Play(spec, [0, 1, 2, 3])
    tasks = 6000
    found = chosen(play, tasks)

    for server, part in enumerate((3, 2, 1, 0)):
        p = part / 6
        assert abs(found[server] - tasks * p) <= 4 * (tasks * p * (1 - p)) ** 0.5


def test_a_set_that_is_never_drawn_is_never_asked():
    play = Play("sampled(law={0+1:1, 2:0})", [9, 9, 0])

    assert set(chosen(play, 500)) == {0, 1}


@pytest.mark.parametrize(
    "written",
    [
        "0+1:0.7, 2:0.3",
        "{1+0:0.7, 2:0.3}",
        {(1, 0): 0.7, (2,): 0.3},
        {frozenset({0, 1}): 0.7, 2: 0.3},
        [{"servers": [0, 1], "probability": 0.7}, {"servers": [2], "probability": 0.3}],
    ],
    ids=str,
)
def test_a_law_has_one_form_however_it_is_written(written):
    text = law_text(written)

    assert text == "{0+1:0.7, 2:0.3}"
    assert law_sets(text) == {(0, 1): 0.7, (2,): 0.3}
    assert resolve({"name": "sampled", "law": written}).label == f"sampled(law={text})"


def test_a_label_can_be_read_again():
    label = Sampled({(0, 1): 1 / 3, (2,): 2 / 3}).label

    assert resolve(label).label == label


@pytest.mark.parametrize(
    ("law", "said"),
    [
        ("", "names no set"),
        ("0+1:0.5", "sum to 0.5; they must sum to 1"),
        ("0:0.7, 1:0.7", "sum to 1.4; they must sum to 1"),
        (":1", "a set is empty"),
        ([{"servers": [], "probability": 1}], "a set is empty"),
        ("0+1:0.5, 1+0:0.5", "named twice"),
        ("0+0:1", "a server is named twice"),
        ("a:1", "should read like"),
        ("0:much", "not a probability"),
        ("0:-1, 1:2", "between 0 and 1"),
        ([{"servers": [0]}], "keys servers and probability"),
        ({(-1,): 1.0}, "-1 is not a server"),
        ({(0.5,): 1.0}, "0.5 is not a server"),
        (7, "must read like"),
    ],
    ids=str,
)
def test_a_law_that_is_none_is_refused_in_one_line(law, said):
    with pytest.raises(PolicyError, match=said) as refused:
        resolve({"name": "sampled", "law": law})

    assert "\n" not in str(refused.value)


def test_a_law_that_names_an_unknown_server_is_refused_for_that_fleet():
    spec = resolve("sampled(law={0+3:1})")
    spec.check(4)

    with pytest.raises(PolicyError, match="names server 3; there are 3, from 0 to 2"):
        spec.check(3)


def test_where_servers_were_lost_what_is_left_of_the_sets_is_asked():
    play = Play("sampled(law={0+4:0.5, 5:0.5})", [1, 0, 1])

    # {0, 4} is {0} now, and {5} anyone: 0, or the shortest, 1
    assert set(chosen(play, 200)) == {0, 1}
