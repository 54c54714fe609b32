"""Tests of what is made of a log after the fact."""
