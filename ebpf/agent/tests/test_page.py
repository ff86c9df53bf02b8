"""The agent's page in a real browser."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from browser import Browser
from cluster import Cluster, free_port, until


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """A browser for all tests of this file."""
    missing = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    assert not missing, f"{missing} missing: tools/setup.sh installs chromium and chromium-driver"
    with Browser(tmp_path_factory.mktemp("browser")) as made:
        yield made


@pytest.fixture
def page(browser, live):
    """The page of the live agent, once it shows rates."""
    browser.size(1280, 1000)
    browser.prefer("light")
    browser.open(live.agent_url)
    until(lambda: count(browser, ".tile .curve") >= 6, "rates on the page")
    return browser


def text(page, selector):
    """What a reader sees of the first such element."""
    return page.script("return document.querySelector(arguments[0]).innerText", selector)


def count(page, selector):
    """How many such elements there are."""
    return page.script("return document.querySelectorAll(arguments[0]).length", selector)


def focused(page):
    """NIC, id or tag of what has the focus."""
    return page.script(
        "const at = document.activeElement; return at.dataset.nic ?? (at.id || at.tagName)"
    )


def tile(live, number):
    """Selector of a rail's tile."""
    return f'[data-nic="{live.rails[number].name}/1"]'


def test_each_nic_has_a_tile_with_rates_latency_and_its_link_as_the_ceiling(page, live):
    assert count(page, ".tile") == 3
    for number in range(2):
        until(lambda: "p99" in text(page, tile(live, number)), "latency")
        shown = text(page, tile(live, number))
        assert live.rails[number].name in shown
        assert "link 1.25 GB/s" in shown and "% of 1.25 GB/s" in shown, shown
        assert re.search(r"in [\d.]+ [kM]B/s", shown) and re.search(r"out [\d.]+ [kM]B/s", shown)
        assert count(page, f"{tile(live, number)} .ceiling") == 1
        assert count(page, f"{tile(live, number)} .curve") == 2
    assert "link speed unknown" in text(page, '[data-nic="lo/1"]')


def test_the_curve_lies_below_the_ceiling_by_the_share_of_the_link(page, live):
    middle = "const at = document.querySelector(arguments[0]).getBBox(); return [at.y, at.height]"
    ceiling, _ = page.script(middle, f"{tile(live, 0)} .ceiling")
    top, _ = page.script(middle, f"{tile(live, 0)} .curve.receive")
    assert ceiling < top < 84


def test_the_heat_map_shows_operations_by_latency_with_their_quantiles(page):
    until(lambda: count(page, "#heat rect") > 5, "cells")
    until(lambda: page.script("return document.querySelector('.curve.p99').getAttribute('d')"), "curve")
    assert re.search(r"\d (us|ms)", text(page, ".scale"))


def test_slow_batches_have_a_bar_whose_stages_add_up(page, live):
    until(lambda: count(page, "#slow .bar span") > 3, "stages")
    shown = text(page, "#slow li")
    assert re.search(r"(read|write) of [\d.]+ [kM]?B", shown), shown
    assert any(rail.there in text(page, "#slow") for rail in live.rails)
    shares = page.script(
        "return [...document.querySelectorAll('#slow .bar')].map((bar) =>"
        " [...bar.children].reduce((sum, part) => sum + parseFloat(part.style.width), 0))"
    )
    assert 99 < max(shares) < 100.1 and min(shares) > 0


def test_every_probe_is_listed_with_its_cost_and_what_is_off_with_its_reason(page, live):
    def rows():
        return text(page, "#probes tbody").splitlines()

    until(lambda: any(row.startswith("tasks") and "of a core" in row for row in rows()), "cost")
    names = {source["name"] for source in live.snapshot()["sources"]}
    assert names == {row.split()[0] for row in rows()}
    off = next(row for row in rows() if row.startswith("rdma_ports"))
    assert "off" in off and "no RDMA device" in off and "perigee doctor" in off
    assert re.search(r"All probes together: .* of a core", text(page, "#cost"))


def test_numbers_change_by_themselves_and_stand_still_while_paused(page, live):
    def shown():
        return [text(page, "#state"), text(page, tile(live, 0))]

    first = shown()
    until(lambda: all(new != old for new, old in zip(shown(), first)), "other numbers")
    page.script("document.getElementById('pause').click()")
    held = shown()
    taken = live.snapshot()["taken_ms"]
    until(lambda: live.snapshot()["taken_ms"] > taken + 2000, "later readings of the agent")
    assert shown() == held
    page.script("document.getElementById('pause').click()")
    until(lambda: shown() != held, "numbers that go on")


def asked(page):
    """How often the page has asked for a snapshot since the last call."""
    return sum(url.endswith("snapshot.json") for url in page.requests())


@pytest.mark.parametrize("how", ["paused", "hidden"])
def test_a_page_that_is_paused_or_hidden_asks_for_nothing(page, live, how):
    until(lambda: asked(page), "questions of the page")
    shown = page.script("return document.hidden")
    assert shown is False
    hide = (
        "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    toggle = "document.getElementById('pause').click()"

    def look(value):
        page.script(toggle) if how == "paused" else page.script(hide, not value)

    look(False)
    # The one that was under way may still be answered.
    taken = live.snapshot()["taken_ms"]
    until(lambda: live.snapshot()["taken_ms"] > taken + 1000, "readings")
    asked(page)
    taken = live.snapshot()["taken_ms"]
    until(lambda: live.snapshot()["taken_ms"] > taken + 2000, "later readings")
    assert asked(page) == 0
    look(True)
    until(lambda: asked(page), "questions again")


def test_the_page_begins_filled_and_goes_back_with_the_slider(page, live):
    taken = live.snapshot()["taken_ms"]
    until(lambda: live.snapshot()["taken_ms"] > taken + 8000, "some seconds of history")
    page.open(live.agent_url)
    until(lambda: count(page, "#heat rect") > 5, "cells of the time before the page was opened")
    assert text(page, "#when") == "now" and page.script("return document.getElementById('now').hidden")
    moved = (
        "const slider = document.getElementById('time'); slider.value = slider.max - arguments[0];"
        "slider.dispatchEvent(new Event('input'))"
    )
    page.script(moved, 5000)
    until(lambda: text(page, "#when") != "now", "the past")
    held = text(page, tile(live, 0))
    later = live.snapshot()["taken_ms"]
    until(lambda: live.snapshot()["taken_ms"] > later + 3000, "later readings")
    assert text(page, tile(live, 0)) == held, "the past stands still"
    page.script("document.getElementById('now').click()")
    until(lambda: text(page, "#when") == "now" and text(page, tile(live, 0)) != held, "now")


def test_each_nic_that_moves_something_has_a_heat_map_of_its_own(page, live):
    until(lambda: count(page, "#nic-heats figure") >= 2, "heat maps")
    shown = page.script("return [...document.querySelectorAll('#nic-heats figure')].map((one) => one.dataset.heat)")
    assert {rail.name for rail in live.rails} <= set(shown)
    until(lambda: count(page, f'[data-heat="{live.rails[0].name}"] rect') > 0, "cells of a NIC")


def test_disks_behind_the_memory_are_shown_with_their_states(page, live):
    until(lambda: count(page, "#logs tbody tr") == 1, "the node's disk")
    shown = text(page, "#logs tbody tr")
    assert str(live.folder / "disk0") in shown and "serves" in shown, shown


def test_the_first_reading_has_no_rates_yet_and_shows_no_nonsense(browser, live):
    # Every answer is the same reading, so there never is a second one.
    once = (
        "const real = window.fetch; let held = null;"
        "window.fetch = async (...all) => {"
        " if (String(all[0]).startsWith('history')) return Response.json({}, { status: 500 });"
        " held ??= await (await real(...all)).text(); return new Response(held); }"
    )
    added = browser.develop("Page.addScriptToEvaluateOnNewDocument", source=once)
    try:
        browser.open(live.agent_url)
        until(lambda: count(browser, "#shards tbody tr") > 1, "shards")
        shown = text(browser, "body")
        assert not re.search(r"NaN|Infinity|undefined|null", shown), shown
        cells = browser.script("return [...document.querySelectorAll('#shards tbody tr')].map((row) => row.cells[5].innerText)")
        assert set(cells) == {"-"}
        assert "- retransmits/s" in text(browser, "#disks")
    finally:
        browser.develop("Page.removeScriptToEvaluateOnNewDocument", **added)


def test_the_keyboard_reaches_all_that_the_mouse_does(page, live):
    reached = set()
    for _ in range(24):
        page.press("Tab")
        reached.add(focused(page))
    nics = {f"{rail.name}/1" for rail in live.rails} | {"lo/1"}
    assert {"pause", "theme", "order", "virtual", "slow"} | nics <= reached
    page.script("document.activeElement.blur()")
    page.press("ArrowRight")
    at = focused(page)
    assert at in nics
    outline = "return getComputedStyle(document.activeElement).outlineStyle"
    assert page.script(outline) == "solid", "the focus must be seen"
    page.press("ArrowRight")
    assert focused(page) in nics - {at}
    page.press("ArrowLeft")
    assert focused(page) == at
    page.press("Enter")
    opened = "return document.querySelector('.tile.open')?.dataset.nic ?? null"
    assert page.script(opened) == at
    state = text(page, "#state")
    until(lambda: text(page, "#state") != state, "next reading")
    assert focused(page) == at and page.script(opened) == at, "a reading must not move the focus"
    page.press("Escape")
    assert page.script(opened) is None
    page.script("document.activeElement.blur()")
    page.press("Space")
    assert text(page, "#pause") == "Go on"
    page.press("Space")
    order = page.script("return document.getElementById('order').value")
    page.press("o")
    assert page.script("return document.getElementById('order').value") != order


@pytest.mark.parametrize("width", [360, 768])
def test_a_narrow_screen_needs_no_sideways_scrolling(page, width):
    page.size(width, 800)
    wide = "return document.documentElement.scrollWidth"
    until(lambda: page.script(wide) <= width, f"a page of {width} pixels")
    outside = page.script(
        "return [...document.querySelectorAll('.tile, #heat svg, #slow li, h2, .note, .controls > *')]"
        ".filter((one) => one.getBoundingClientRect().right > innerWidth).map((one) => one.outerHTML)"
    )
    assert outside == []


def colours(page):
    """Ground, ink and dim ink as triples."""
    names = [("body", "backgroundColor"), ("body", "color"), (".note", "color"), (".tile", "backgroundColor")]
    read = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    found = (page.script(read, *name) for name in names)
    return [tuple(int(part) for part in re.findall(r"\d+", text)[:3]) for text in found]


def contrast(one, other):
    """Ratio of luminances, as accessibility guidelines count."""
    def luminance(colour):
        parts = [part / 255 for part in colour]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_light_and_dark_follow_the_system_and_the_button(page):
    shown = {}
    for scheme in ("light", "dark"):
        page.prefer(scheme)
        ground, ink, dim, sheet = shown[scheme] = colours(page)
        assert contrast(ground, ink) > 7 and contrast(sheet, ink) > 7
        assert contrast(ground, dim) > 4.5
    assert sum(shown["light"][0]) > 600 > 200 > sum(shown["dark"][0])
    page.press("t")
    assert colours(page) == shown["light"]


def test_nothing_comes_from_elsewhere_and_nothing_is_complained_about(page, live):
    page.requests()
    page.complaints()
    page.open(live.agent_url)
    until(lambda: count(page, ".tile") == 3, "page")
    hosts = {urlsplit(url).netloc for url in page.requests() if not url.startswith("data:")}
    assert hosts == {urlsplit(live.agent_url).netloc}
    assert page.complaints() == []
    page.script("fetch('http://192.0.2.1/').catch((error) => { window.refused = String(error) })")
    until(lambda: page.script("return window.refused ?? null"), "refusal by the policy")
    assert any("Content Security Policy" in line for line in page.complaints())


def test_an_agent_that_is_gone_is_reported_and_one_that_is_back_is_shown(browser, tmp_path):
    with Cluster(tmp_path) as alone:
        alone.web = free_port()
        alone.start_agent("--ebpf=false")
        browser.open(alone.agent_url)
        until(lambda: count(browser, ".tile") > 0, "page")
        alone.stop("agent", kill=True)
        until(lambda: "does not answer" in text(browser, "#trouble"), "message")
        assert re.search(r"what is shown is of \d", text(browser, "#trouble"))
        faded = "return getComputedStyle(document.querySelector('main')).opacity"
        assert float(browser.script(faded)) < 1, "old numbers must look old"
        assert count(browser, ".tile") > 0, "the last numbers stay"
        alone.start_agent("--ebpf=false")
        until(lambda: text(browser, "#trouble") == "", "page that goes on")
        assert float(browser.script(faded)) == 1


def test_an_agent_that_answers_with_the_same_reading_for_ever_is_reported(page):
    page.script(
        "const real = window.fetch; let held = null;"
        "window.fetch = async (...all) => { held ??= await (await real(...all)).text(); return new Response(held); }"
    )
    until(lambda: "no longer reads its host" in text(page, "#trouble"), "message")


def test_what_needs_probes_that_are_off_says_so_with_the_reason(browser, tmp_path):
    with Cluster(tmp_path) as alone:
        alone.start_agent("--ebpf=false")
        off = {source["name"]: source for source in alone.snapshot()["sources"]}
        browser.open(alone.agent_url)
        until(lambda: count(browser, ".tile") > 0, "page")
        for table, source in (("#slow", "batches"), ("#disks", "blocks"), ("#shards", "tasks")):
            shown = text(browser, table)
            assert off[source]["reason"] in shown and off[source]["remedy"] in shown, shown


def test_a_host_without_nics_or_operations_says_so(browser, live):
    empty = (
        "const real = window.fetch; window.fetch = async (...all) => {"
        " if (String(all[0]).startsWith('history')) return Response.json({}, { status: 500 });"
        " const read = await (await real(...all)).json();"
        " return Response.json({ ...read, nics: [], flows: [] }); }"
    )
    added = browser.develop("Page.addScriptToEvaluateOnNewDocument", source=empty)
    try:
        browser.open(live.agent_url)
        until(lambda: count(browser, "#heat .none") == 1, "a word in the empty chart")
        assert text(browser, "#nics") == "The agent sees no NIC on this host."
    finally:
        browser.develop("Page.removeScriptToEvaluateOnNewDocument", **added)
