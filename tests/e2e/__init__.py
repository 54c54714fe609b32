"""The command as people run it: a process, a spec, a model, and what is on disk afterwards."""
