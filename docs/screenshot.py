"""Take the screenshots of the README from the example reports, in headless Chromium."""

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
PAGES = {"report": ("offload", 1480), "compare": ("compare", 1340)}
"""Name of each picture: which example it shows, and how many pixels of it from the top."""


def main() -> None:
    """Write ``docs/report.png`` and ``docs/compare.png``, down to the timeline of each."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, (example, height) in PAGES.items():
            page = browser.new_page(viewport={"width": 1200, "height": height})
            page.goto((ROOT / "reports/examples/demo" / example / "report.html").as_uri())
            page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length > 0")
            page.wait_for_timeout(500)  # figures settle
            page.screenshot(path=ROOT / "docs" / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
