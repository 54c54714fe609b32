"""Tests of the tools, one file per tool."""
