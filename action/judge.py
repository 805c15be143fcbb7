"""End the job as the analysis ended, once everything is told: why, and its exit code."""

import os

from workflow import annotate


def main() -> None:
    """Say what failed and exit."""
    for line in os.environ["ERRORS"].splitlines():
        annotate("error", line)
    raise SystemExit(int(os.environ["STATUS"]))


if __name__ == "__main__":
    main()
