"""`python -m runner` is `autopilot`."""

from runner.cli import main

if __name__ == "__main__":
    main()
