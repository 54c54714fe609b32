"""The shell: performs the steps the core decides on; knows ports and core, no adapter."""
