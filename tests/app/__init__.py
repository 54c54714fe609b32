"""The composition root, in this process: real adapters, real tools, a scripted model."""
