"""Equipoise: load-balancing policies, written once, driven by equations, simulation and traffic.

    import equipoise as eq

    s = eq.Scenario.from_toml("chat.toml")
    eq.compare(s, ["jsq-d", eq.Threshold(level=8)])

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import (
        EquipoiseError,
        PolicyError,
        PolicyMismatch,
        ScenarioError,
        TraceError,
        UnstableError,
    )
    from .policies import POLICIES, Param, Policy, PolicySpec, ask, resolve
    from .policies.aujsq_det import AujsqDet
    from .policies.aujsq_exp import AujsqExp
    from .policies.jbt import Jbt
    from .policies.jiq import Jiq
    from .policies.jsq import Jsq
    from .policies.jsq_d import JsqD
    from .policies.learning_threshold import LearningThreshold
    from .policies.ll_d import LlD
    from .policies.random import Random
    from .policies.round_robin import RoundRobin
    from .policies.sampled import Sampled
    from .policies.sed import Sed
    from .policies.sparsified_jiq import SparsifiedJiq
    from .policies.stale_jsq import StaleJsq
    from .policies.sujsq_det import SujsqDet
    from .policies.sujsq_exp import SujsqExp
    from .policies.threshold import Threshold
    from .policies.total_threshold import TotalThreshold
    from .report.advise import Advice, advise
    from .report.compare import compare
    from .report.fit import Fit, fit
    from .report.limit import LimitReport, limit
    from .report.results import Comparison, PolicyResult, Simulation
    from .report.simulate import simulate
    from .report.stability import fleet_of, stability
    from .report.sweep import Sweep, sweep
    from .scenario import Scenario
    from .stats import Estimate
    from .theory.limits import LIMITS

_HOME = {
    "errors": (
        "EquipoiseError",
        "PolicyError",
        "PolicyMismatch",
        "ScenarioError",
        "TraceError",
        "UnstableError",
    ),
    "policies": ("POLICIES", "Param", "Policy", "PolicySpec", "ask", "resolve"),
    "report.advise": ("Advice", "advise"),
    "report.compare": ("compare",),
    "report.fit": ("Fit", "fit"),
    "report.results": ("Comparison", "PolicyResult", "Simulation"),
    "report.simulate": ("simulate",),
    "report.limit": ("LimitReport", "limit"),
    "report.stability": ("fleet_of", "stability"),
    "report.sweep": ("Sweep", "sweep"),
    "scenario": ("Scenario",),
    "stats": ("Estimate",),
    "theory.limits": ("LIMITS",),
}
_CONSTRUCTORS = (
    "AujsqDet",
    "AujsqExp",
    "Jbt",
    "Jiq",
    "Jsq",
    "JsqD",
    "LearningThreshold",
    "LlD",
    "Random",
    "RoundRobin",
    "Sampled",
    "Sed",
    "SparsifiedJiq",
    "StaleJsq",
    "SujsqDet",
    "SujsqExp",
    "Threshold",
    "TotalThreshold",
)
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["__version__", *_WHERE, *_CONSTRUCTORS]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # 0.02 s that few processes need

        return version("equipoise")
    if name in _WHERE:
        value = getattr(import_module(f".{_WHERE[name]}", __name__), name)
    elif name in _CONSTRUCTORS:
        value = import_module(".policies", __name__).CONSTRUCTORS[name]
    else:
        raise AttributeError(f"module 'equipoise' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
