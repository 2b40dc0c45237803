"""The agent of a server."""

from .telling import Agent, Link, NotWelcome

__all__ = ["Agent", "Link", "NotWelcome"]
