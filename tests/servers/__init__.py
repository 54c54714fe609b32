"""Fake model servers on loopback: real wire formats, scripted replies, recorded requests."""

from .http import ModelServer
from .script import DEFAULT_USAGE, D, F, Request, Step, T, Tool, Usage, X

__all__ = ["DEFAULT_USAGE", "D", "F", "ModelServer", "Request", "Step", "T", "Tool", "Usage", "X"]
