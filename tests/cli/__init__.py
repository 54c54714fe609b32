"""Tests of the command line: exit codes, what stdout carries, what stderr says."""
