"""Heavy traffic: exact equilibria against the identity, the bounds, and the limit."""

import numpy as np
import pytest
from exact_slotted import binomial, slotted

from equipoise.errors import EquipoiseError, UnstableError
from equipoise.theory.heavy_traffic import (
    bernoulli_total,
    heavy_traffic,
    identity,
    least_total,
    most_apart,
    pooled_queue,
    random_means,
)

# mu1, mu2, most arrivals, lam; E[q1 + q2], E q1, E q2, E u^2, E[q' u], pooled queue, limit over eps
TWO = """
.3 .6  2  .6   1.53747291   .95449227   .58298064  .35023752  .15636064   .94024079  1.45
.3 .6  2  .7   2.42094267  1.43173756   .98920511  .22810042  .12573875  1.71093327  2.2625
.3 .6  2  .8   4.89144786  2.70788550  2.18356236  .11159860  .07494409  4.05709228  4.65
.3 .6  2  .85  9.67631445  5.12333195  4.55298249  .05523091  .04080618  8.77410082  9.3875
.5 .5  2  .7   1.55229006   .77614503   .77614503  .36466256  .12551830  1.05970323  1.59166667
.5 .5  2  .9   5.02200480  2.51100240  2.51100240  .11553412  .05746754  4.36627429  4.975
.2 .9  3  .8   1.98723268  1.45657295   .53065972  .32355019  .29461157   .91254948  1.39444444
.2 .9  3  1.0  5.49919106  3.36871100  2.13048006  .10489941  .13903548  4.01216293  4.58333333
"""

# d, lam, lengths up to; E sum q, E q1, E q2, E q3, E ||q_perp||^2
THREE = [
    (2, 1.0, 28, 3.07213878, 1.35919725, 0.94350994, 0.76943158, 2.06011033),
    (2, 1.2, 36, 5.87147923, 2.42641187, 1.85935906, 1.58570830, 3.32776027),
    (3, 1.0, 24, 2.48348559, 1.04357405, 0.77154702, 0.66836452, 1.33581376),
    (3, 1.2, 32, 4.61086598, 1.79923122, 1.46917870, 1.34245607, 1.76062607),
]

LAST = 1.01e-8  # one unit of the last digit printed


def binomial_variance(most, mean):
    return mean * (1 - mean / most)


def service_variance(mu):
    return sum(one * (1 - one) for one in mu)


@pytest.mark.parametrize("row", TWO.strip().splitlines())
def test_two_queues_under_jsq_meet_the_table_and_the_identity(row):
    mu1, mu2, most, lam, total, first, second, *rest = map(float, row.split())
    unused_square, cross, pooled, limit = rest
    mu, most = (mu1, mu2), int(most)
    eps = sum(mu) - lam
    exact = slotted(
        mu, binomial(most, lam), d=2, top=60 if eps > 0.15 else 110 if eps > 0.07 else 170
    )

    terms = identity(
        binomial_variance(most, lam), service_variance(mu), eps, exact.unused_square, exact.cross
    )
    one = pooled_queue(binomial(most, lam), bernoulli_total(mu))

    assert exact.edge < 1e-14
    assert exact.unused == pytest.approx(eps, abs=1e-10)
    assert [exact.total, *exact.means] == pytest.approx([total, first, second], abs=LAST)
    assert [exact.unused_square, exact.cross] == pytest.approx([unused_square, cross], abs=LAST)
    assert terms.total == pytest.approx(exact.total, rel=1e-8)
    assert one.mean == pytest.approx(pooled, abs=LAST)
    assert heavy_traffic(mu, 2, binomial_variance(most, lam)).total_at(eps) == pytest.approx(
        limit, abs=LAST
    )
    assert least_total(binomial_variance(most, lam), service_variance(mu), eps, 2) <= one.mean
    assert one.mean <= exact.total
    # at most one service per server and slot: E ||u||^2 = eps
    assert 0 <= terms.apart <= most_apart(2, eps, eps, exact.apart)


def test_the_identity_is_exact_for_the_pooled_queue_without_its_second_term():
    one = pooled_queue(binomial(2, 0.8), bernoulli_total([0.3, 0.6]))

    terms = identity(
        binomial_variance(2, 0.8), service_variance([0.3, 0.6]), one.eps, one.unused_square, 0.0
    )

    assert one.mean == pytest.approx(terms.total, rel=1e-10)


def test_scaled_queues_tend_to_the_limit_while_their_differences_stay():
    """eps E sum q, P(eps sum q > 1), E ||q_perp||^2 at eps = 0.1, 0.05."""
    limit = heavy_traffic([0.3, 0.6], 2, arrival_variance=0.9 * 0.55)
    found = []
    for lam, top in ((0.8, 110), (0.85, 170)):
        exact = slotted((0.3, 0.6), binomial(2, lam), d=2, top=top)
        eps = 0.9 - lam
        # "more than 1/eps tasks", in whole numbers
        beyond = exact.lengths.sum(axis=0) > round(1 / eps)
        found.append((eps * exact.total, exact.mean(beyond), exact.apart))

    assert limit.total_mean == pytest.approx(0.4725)
    assert limit.mean == pytest.approx(0.23625)
    assert limit.tail(1.0) == pytest.approx(0.12047, abs=1.01e-5)
    assert found[0] == pytest.approx((0.489145, 0.1118, 0.8788), abs=1.01e-4)
    assert found[1] == pytest.approx((0.483816, 0.1166, 0.9835), abs=1.01e-4)
    assert [found[0][0], found[1][0]] == pytest.approx([0.489145, 0.483816], abs=1.01e-6)


@pytest.mark.slow
def test_closer_still_the_limit_is_closer():
    exact = slotted((0.3, 0.6), binomial(2, 0.875), d=2, top=340)

    assert 0.025 * exact.total == pytest.approx(0.478950, abs=1.01e-6)
    assert exact.mean(exact.lengths.sum(axis=0) > 40) == pytest.approx(0.1187, abs=1.01e-4)
    assert exact.apart == pytest.approx(1.0405, abs=1.01e-4)


@pytest.mark.parametrize("row", THREE)
def test_three_queues_meet_the_table(row):
    d, lam, top, total, first, second, third, apart = row

    exact = slotted((0.3, 0.5, 0.6), binomial(3, lam), d, top)

    assert exact.edge < 1e-10
    assert [exact.total, *exact.means] == pytest.approx([total, first, second, third], abs=LAST)
    assert exact.apart == pytest.approx(apart, abs=LAST)


@pytest.mark.slow
def test_three_queues_under_random_meet_the_table_on_its_own_grid():
    """d = 1: cut at 44, as the table was; 6.1383400 is short of the uncut value, 6.138353."""
    cut = slotted((0.3, 0.5, 0.6), binomial(3, 0.6), 1, 44)
    wide = slotted((0.3, 0.5, 0.6), binomial(3, 0.6), 1, 60)

    assert cut.apart == pytest.approx(6.1383400, abs=1.01e-7)
    assert wide.apart == pytest.approx(6.138353, abs=1.01e-6)
    assert wide.total == pytest.approx(2.5666667, abs=1.01e-7)


def test_queues_under_random_sending_have_a_closed_form():
    means = random_means([0.3, 0.5, 0.6], 0.6, binomial_variance(3, 0.6))

    assert means == pytest.approx([1.8, 0.46666667, 0.3], abs=LAST)
    assert means.sum() == pytest.approx(2.5666667, abs=1.01e-7)


def test_the_closed_form_agrees_with_the_chain():
    exact = slotted((0.4, 0.7), binomial(3, 0.5), d=1, top=60)

    assert exact.means == pytest.approx(
        random_means([0.4, 0.7], 0.5, binomial_variance(3, 0.5)).tolist(), rel=1e-9
    )


@pytest.mark.parametrize(("eps", "limit"), [(0.2, 4.85), (0.1, 9.7375), (0.05, 19.49375)])
def test_four_queues_have_the_printed_limit_for_two_choices_and_for_four(eps, limit):
    mu = [0.35, 0.45, 0.55, 0.65]
    variance = binomial_variance(4, 2 - eps)

    for d in (2, 4):
        assert heavy_traffic(mu, d, variance).total_at(eps) == pytest.approx(limit, abs=1e-9)


def test_the_pooled_queue_is_solved_close_to_the_boundary_too():
    eps = 0.001
    one = pooled_queue(binomial(2, 0.9 - eps), bernoulli_total([0.3, 0.6]))

    terms = identity(
        binomial_variance(2, 0.9 - eps), service_variance([0.3, 0.6]), eps, one.unused_square, 0.0
    )
    assert one.mean == pytest.approx(terms.total, rel=1e-7)


def test_a_queue_that_never_gets_more_than_it_can_serve_is_empty():
    one = pooled_queue([0.5, 0.5], [0.0, 0.5, 0.5])

    assert one.mean == 0
    assert one.eps == 1.0
    assert one.unused_square == pytest.approx(0.25 * 0 + 0.5 * 1 + 0.25 * 4)


def test_services_may_be_correlated():
    together = np.full((2, 2), 0.2)

    limit = heavy_traffic([0.5, 0.5], 2, 0.3, service_covariance=together)

    assert limit.service_variance == pytest.approx(0.8)
    assert heavy_traffic([2.0, 2.0], 2, 0.3, service_covariance=[0.1, 0.3]).total_mean == 0.35
    assert heavy_traffic([2.0, 2.0], 2, 0.3, service_covariance=0.4).total_mean == 0.35


def test_a_limit_says_that_it_is_one():
    limit = heavy_traffic([0.3, 0.6], 2, 0.42)

    assert limit.describe(0.3) == (
        "limit as eps -> 0 (here eps = 0.3): the total times eps is exponential with mean 0.435; "
        "over eps that is 1.45 tasks, not an estimate: the true mean is higher or lower by a share "
        "of order sqrt(eps) at most"
    )
    assert limit.tail(np.array([0.0, 0.435])).tolist() == pytest.approx([1.0, np.exp(-1)])


@pytest.mark.parametrize(
    ("call", "error", "line"),
    [
        (
            lambda: heavy_traffic([0.1, 0.2, 0.3, 0.9, 0.9], 2, 1.0),
            UnstableError,
            "these speeds are not inside the polytope of d = 2: the load at which queues grow is "
            "not the capacity of all servers, or only just, and this limit does not hold; "
            "use a larger d",
        ),
        (
            lambda: heavy_traffic([2.0, 2.0], 2, 1.0),
            EquipoiseError,
            "mu = 2 > 1 is not the mean of one Bernoulli service; give service_covariance",
        ),
        (
            lambda: heavy_traffic([0.5, 0.5], 2, 1.0, [1.0, 1.0, 1.0]),
            EquipoiseError,
            "service_covariance has shape (3,); it must be one number, 2 variances, or a "
            "2 x 2 matrix",
        ),
        (
            lambda: heavy_traffic([0.5, 0.5], 2, -1.0),
            EquipoiseError,
            "arrival_variance = -1.0 must be a number >= 0",
        ),
        (
            lambda: heavy_traffic([0.5, 0.5], 2, 1.0).total_at(0.0),
            EquipoiseError,
            "eps = 0.0 must be more than 0: capacity left over, tasks per slot",
        ),
        (
            lambda: random_means([0.3, 0.5], 0.7, 0.5),
            UnstableError,
            "server 0 gets lam/n = 0.35 tasks per slot and serves 0.3: its queue grows; "
            "use lam < 0.6",
        ),
        (
            lambda: random_means([1.3, 0.5], 0.7, 0.5),
            EquipoiseError,
            "mu = 1.3 must be at most 1, one Bernoulli service per slot",
        ),
        (
            lambda: pooled_queue([0.0, 1.0], [0.5, 0.5]),
            UnstableError,
            "0.5 more arrivals than services per slot: the queue grows",
        ),
        (
            lambda: pooled_queue([0.5, 0.4], [0.5, 0.5]),
            EquipoiseError,
            "arrivals must be probabilities of 0, 1, 2, ... that sum to 1",
        ),
        (
            lambda: bernoulli_total([0.5, 1.5]),
            EquipoiseError,
            "mu = 1.5 must be at most 1, one Bernoulli service per slot",
        ),
    ],
)
def test_what_has_no_answer_gets_one_clear_line(call, error, line):
    with pytest.raises(error) as refused:
        call()

    assert str(refused.value) == line
