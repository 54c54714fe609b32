"""The tests: `core` and `laws` need nothing, `engine` runs over the fakes of `tests.fakes`."""
