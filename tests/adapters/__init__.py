"""Tests of the adapters, one file per module."""
