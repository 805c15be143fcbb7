"""Take the screenshot of the README from the example report, in headless Chromium."""

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Write ``docs/report.png``: the example report down to its timeline."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 1480})
        page.goto((ROOT / "reports/examples/demo/offload/report.html").as_uri())
        page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length > 0")
        page.wait_for_timeout(500)  # figures settle
        page.screenshot(path=ROOT / "docs/report.png")
        browser.close()


if __name__ == "__main__":
    main()
