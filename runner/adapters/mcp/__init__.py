"""MCP servers: what a spec says of them, the wire to them, their tools."""
