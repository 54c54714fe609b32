"""autopilot-runner: a headless autopilot CI runner."""

__version__ = "0.1.0"
