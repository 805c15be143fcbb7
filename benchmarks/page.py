"""How long headless Chromium takes from opening a report to its figures being on the screen.

    python -m benchmarks.page REPORT.html TIMES

Prints milliseconds as a JSON list, without a first visit in which Chromium itself gets going.
"""

import json
import shutil
import sys
from pathlib import Path

__all__ = ["main"]

# The page draws before its load event ends; the second frame after that shows what was drawn.
SHOWN = """() => new Promise((resolve) =>
    requestAnimationFrame(() => requestAnimationFrame(() =>
        resolve(document.documentElement.dataset.drawn === "true" ? performance.now() : null))))"""


def main(report: Path, times: int) -> None:
    """Open the report a number of times, each in a context without a cache."""
    from playwright.sync_api import sync_playwright

    shown = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for _ in range(times + 1):
            page = browser.new_context().new_page()
            page.goto(report.resolve().as_uri())
            shown.append(page.evaluate(SHOWN))
            page.context.close()
        browser.close()
    if None in shown:
        raise SystemExit(f"{report} did not draw its figures")
    print(json.dumps(shown[1:]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
