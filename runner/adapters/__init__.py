"""The outside world, one file each: every module implements a port or does one job on disk."""
