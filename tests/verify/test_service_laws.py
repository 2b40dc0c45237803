"""The right family is found, 95 times of 100 at least, at 10^4 times."""

import numpy as np
import pytest

from equipoise.logs.laws import fit_service
from equipoise.scenario import Coxian, Erlang, Exponential, Hyperexponential, Lognormal

pytestmark = pytest.mark.slow

LAWS = {
    "exponential": Exponential(mean=0.2),
    "lognormal": Lognormal(mean=0.2, scv=np.e - 1),  # sigma = 1
    "hyperexponential": Hyperexponential(mean=0.2, scv=4.0),  # balanced means
    "erlang": Erlang(mean=0.2, shape=3),
    # its share q of slow phases is 0.4: another name of a hyperexponential
    "coxian": Coxian(rates=(10.0, 1.0), probabilities=(0.36,)),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_family_of_ten_thousand_times_is_found(name):
    rng = np.random.default_rng(1)
    fits = [fit_service(LAWS[name].sample(rng, 10_000)) for _ in range(100)]
    right = "hyperexponential" if name == "coxian" else name

    assert sum(f.law.name == right for f in fits) >= 95
    mean, scv = LAWS[name].moments()
    off = [abs(f.law.mean - mean) for f in fits]
    assert np.mean(off) < 2 * mean * np.sqrt(scv / 10_000)
