"""Tests of the adapters to MCP servers."""
