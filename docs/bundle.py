"""Compile the schedules that the demo falls back on, and put them into the package."""

from nsysoffload.recorders.predict.bundle import save
from nsysoffload.recorders.predict.capture import compiled
from nsysoffload.recorders.predict.demo import REQUEST, VARIANTS, bundled


def main() -> None:
    """Write ``nsysoffload/recorders/predict/bundled``."""
    for variant in VARIANTS:
        save(compiled(REQUEST, variant), bundled(variant))


if __name__ == "__main__":
    main()
