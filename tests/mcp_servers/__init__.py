"""MCP servers for the tests: real ones from npm, and two that misbehave on request."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
MODULES = HERE / "node_modules" / "@modelcontextprotocol"
EVERYTHING = MODULES / "server-everything" / "dist" / "index.js"
FILESYSTEM = MODULES / "server-filesystem" / "dist" / "index.js"
ODD = HERE / "odd.py"
RAW = HERE / "raw.py"
