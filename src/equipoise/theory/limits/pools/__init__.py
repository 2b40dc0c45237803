"""Fluid limits of pools, one file each; solving them is the work of `equipoise.theory.pools`.

x[k] is the fraction of pools with at least k + 1 tasks, and rho the tasks offered per pool.
"""

from . import jsq, jsq_d, random, threshold

__all__ = ["jsq", "jsq_d", "random", "threshold"]
