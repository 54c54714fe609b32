"""The walls around commands: what they may touch, two ways to hold them to it, and the proof."""
