"""Load times of the pages in a real browser, compared with a static page, and frame times of a large map.

    python -m bench.pages [--size 10000] [--strict] [--json PATH]

A service on the embedded store, vectors of 384 dimensions, headless Chromium without a GPU. A page counts as loaded
when its main content is drawn: the chart, the first row, the points. The baseline is `/docs`, one HTML file from the
same service in the same browser. Requires Chromium or Chrome.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser
from tests.ui import browser

import cofio
from bench import measure
from bench.vectors import Material
from cofio.models.memory import Fact
from cofio.providers import embedders
from cofio.server.http.server import HttpServer
from cofio.settings import Settings

ROUNDS = 5
ANCHORS = 500  # really embedded texts; the others are mixtures of them
#: Path of each page, and the selector of its main content.
PAGES = {
    "docs": ("/docs", "main, body"),
    "overview": ("/ui/overview", "#page svg"),
    "memories": ("/ui/memories", "[role=option]"),
    "map": ("/ui/map", "#dots[data-view]"),
}
TARGETS = (
    ("the first view takes less than 1 s", "overview_ms", 1_000.0),
    ("the map takes less than 2 s, also when it was never drawn", "map_cold_ms", 2_000.0),
    ("a frame of a pan takes less than 34 ms", "frame_ms", 34.0),
)
_FRAMES = """() => {
    globalThis.frames = [];
    let last = performance.now();
    const step = (now) => { frames.push(now - last); last = now; requestAnimationFrame(step); };
    requestAnimationFrame(step);
}"""


def run_benchmark(size: int) -> dict[str, float]:
    """Return the median load time of each page in milliseconds; the map's first visit is separate."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_service(Path(folder), size) as url,
        browser.running() as chromium,
    ):
        measure_load(chromium, url, "docs")  # warms the browser up
        cold_ms = measure_load(chromium, url, "map")
        figures = {"map_cold_ms": cold_ms, "frame_ms": measure_pan(chromium, url)}
        for name in PAGES:
            figures[f"{name}_ms"] = statistics.median(measure_load(chromium, url, name) for _ in range(ROUNDS))
    return figures


@contextmanager
def start_service(folder: Path, size: int) -> Iterator[str]:
    """Yield the URL of a service with this many memories."""
    settings = Settings.load()
    model = embedders.make("local", home=settings.home, download=settings.model_download)
    material = Material.make(folder, model, count=size, prompts=1, warmup=0, anchors=ANCHORS)
    texts = [text for _, text in material.facts(0, size)]
    with cofio.open(f"sqlite://{folder}/cofio.db", embedder=material.embedder(0, size), home=folder) as keeper:
        for start in range(0, size, 1_000):
            keeper.add_all([Fact(text=text, source="bench/app") for text in texts[start : start + 1_000]], dedup=False)
        server = HttpServer(keeper, Settings(port=0, home=folder))
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server.url
        finally:
            server.stop()
            thread.join()


def measure_load(chromium: Browser, url: str, name: str) -> float:
    """Return the milliseconds until the page is loaded, in a new browser context."""
    path, selector = PAGES[name]
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(f"{url}{path}", wait_until="commit")
    page.wait_for_selector(selector, state="attached", timeout=60_000)
    milliseconds: float = page.evaluate("performance.now()")
    context.close()
    return milliseconds


def measure_pan(chromium: Browser, url: str) -> float:
    """Return the median frame time while the map is dragged."""
    context = chromium.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(f"{url}/ui/map")
    page.wait_for_selector(PAGES["map"][1])
    box = page.locator("#dots").bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.evaluate(_FRAMES)
    for step in range(80):
        page.mouse.move(x + 2 * step, y + step / 2)
    frames: list[float] = page.evaluate("frames")
    context.close()
    return statistics.median(frames)


def show(results: dict[str, Any]) -> None:
    figures = results["figures"]
    print(f"\n{results['size']:,} memories; milliseconds until the page is loaded, and the ratio to /docs")
    for name in ("docs_ms", "overview_ms", "memories_ms", "map_ms", "map_cold_ms"):
        page_name = name.removesuffix("_ms").replace("_", " ")
        print(f"  {page_name:<10} {figures[name]:>7,.0f}  {figures[name] / figures['docs_ms']:>5.1f}")
    print(f"  a frame of a pan takes {figures['frame_ms']:.1f} ms")
    for label, name, maximum in TARGETS:
        print(f"  bar: {label}: {'cleared' if figures[name] < maximum else 'MISSED'}")


def missed(results: dict[str, Any]) -> list[str]:
    """Return the targets that were missed."""
    return [label for label, name, maximum in TARGETS if results["figures"][name] >= maximum]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--strict", action="store_true", help="fail if a target is missed")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    results = {"machine": measure.machine(), "size": options.size, "figures": run_benchmark(options.size)}
    show(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2), encoding="utf-8")
    if options.strict and missed(results):
        sys.exit(1)


if __name__ == "__main__":
    main()
