"""Benchmarks for people: figures and ratios measured in one run, never a timed test."""
