"""Run the command line with ``python -m nsysoffload``."""

from nsysoffload.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main(prog_name="nsysoffload")
