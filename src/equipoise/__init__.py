"""Equipoise: load-balancing policies, written once, driven by equations, simulation and traffic."""
