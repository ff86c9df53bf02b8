"""`python3 -m bench.plots [--check]`: draws every table of numbers in `bench/results` and links the pictures below them.

The tables are the data. With --check nothing is written; the exit status is 1 if a picture or a link is not up to date.
"""

import pathlib
import sys

from bench.plots.series import points
from bench.plots.svg import draw
from bench.plots.table import tables

RESULTS = pathlib.Path(__file__).parents[1] / "results"
FOLDER = "plots"


def pictures(page):
    """(name, table, picture) of each table that has numbers to draw."""
    found = []
    for table in tables(page.read_text()):
        marks = points(table)
        if len({point.row for point in marks}) > 1:
            name = f"{page.stem}-{len(found) + 1}.svg"
            found.append((name, table, draw(table.heading, marks)))
    return found


def linked(text, drawn):
    """The page with a link below each table that has a picture, and no other links to pictures."""
    lines = text.split("\n")
    for name, table, _ in reversed(drawn):
        link = f"![{table.heading}]({FOLDER}/{name})"
        after = lines[table.end + 1] if table.end + 1 < len(lines) else ""
        if after.startswith("![") and f"({FOLDER}/" in after:
            lines[table.end + 1] = link
        else:
            lines[table.end : table.end] = ["", link]
    return "\n".join(lines)


def wanted(results):
    """Path -> text of every page and picture."""
    files = {}
    for page in sorted(results.glob("*.md")):
        drawn = pictures(page)
        files[page] = linked(page.read_text(), drawn)
        for name, _, picture in drawn:
            files[results / FOLDER / name] = picture
    return files


def main(words, results=RESULTS):
    """The exit status."""
    files = wanted(results)
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    stale += [path for path in (results / FOLDER).glob("*.svg") if path not in files]
    if "--check" in words:
        for path in stale:
            print(f"{path.relative_to(results)} is not up to date; run make bench-plots", file=sys.stderr)
        return 1 if stale else 0
    (results / FOLDER).mkdir(exist_ok=True)
    for path in stale:
        if path in files:
            path.write_text(files[path])
        else:
            path.unlink()
    print(f"{len(stale)} files of {len(files)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
