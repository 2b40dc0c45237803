"""The page, its figures, and the arithmetic under them."""

import itertools
import json
import math
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError
from equipoise.report import axes, figures, palette
from equipoise.report.results import PolicyResult
from equipoise.stats import Estimate

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """Collects tags and their attributes, and insists that what is opened is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.words = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


@pytest.mark.parametrize("kind", ["pools", "queues"])
def test_the_page_is_one_file_that_asks_nothing_of_the_network(kind, request):
    page = request.getfixturevalue(kind).page()
    reader = read(page)

    assert len(page.encode()) < 1_500_000
    assert not re.search(r"https?:|//[a-z]|@import|url\(", page.replace("http://www.w3.org/", ""))
    for tag, attributes in reader.tags:
        assert tag not in ("link", "iframe", "img")
        assert "src" not in attributes
        assert attributes.get("href", "data:").startswith("data:")
        assert not any(name.startswith("on") for name in attributes)


@pytest.mark.parametrize("kind", ["pools", "queues"])
def test_the_page_holds_the_reading_the_table_and_four_figures(kind, request):
    reader = read(request.getfixturevalue(kind).page())
    ids = [a["id"] for tag, a in reader.tags if tag == "figure"]
    words = " ".join(reader.words)

    assert ids == ["over-time", "distribution", "cost", "threshold"]
    assert "cannot be told apart from jsq" in words
    assert "equipoise" in words
    assert "--seed 1" in " ".join(words.split())
    assert "numpy 2.4.6" in words


def test_every_picture_is_described_and_every_table_has_a_caption_and_scopes(pools):
    reader = read(pools.page())

    for tag, attributes in reader.tags:
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"
        if tag == "th":
            assert attributes["scope"] in ("row", "col")
    tags = [tag for tag, _ in reader.tags]
    assert tags.count("table") == tags.count("caption") == 2
    assert dict(reader.tags)["html"]["lang"] == "en"


def test_what_users_wrote_is_text_and_never_markup(make):
    evil = "<script>alert('x')</script>\"&"
    policy = replace(
        make.policy("pool", "learning-threshold", "learning-threshold", 0.3, 1.0, 2),
        name=evil,
        label=f"{evil}(a=1)",
        cost=evil,
        source=evil,
        params={"a": evil},
    )
    other = replace(make.policy("pool", "jsq", "jsq", 0.5, 1.0, 32), unstable=None)
    refused = PolicyResult(evil, "refused" + evil, {}, 0, evil, evil, unstable=evil)
    comparison = make.comparison("pool", [policy, other, refused], name=evil, command=evil)
    comparison = replace(comparison, notes=(evil,))

    for text in (comparison.page(), comparison._repr_html_()):
        reader = read(text)
        assert "<script>alert" not in text
        assert [tag for tag, _ in reader.tags].count("script") <= 1


def test_figures_are_well_formed_xml(pools, queues):
    for comparison, draw in itertools.product(
        (pools, queues),
        (figures.paths, figures.distribution, figures.cost, figures.thresholds),
    ):
        for picture in draw(comparison).pictures:
            ET.fromstring(picture.replace("tabindex", "data-tab"))
            assert "nan" not in picture
            assert "inf" not in picture.replace("information", "")


def test_the_numbers_behind_each_figure_can_be_downloaded(pools):
    reader = read(pools.page())
    links = {a["download"]: a["href"] for tag, a in reader.tags if tag == "a"}

    assert set(links) == {
        *("estimates.csv", "over-time.csv", "distribution.csv", "cost.csv", "threshold.csv")
    }
    for href in links.values():
        head, _, body = href.partition(",")
        assert head == "data:text/csv;charset=utf-8"
        lines = unquote(body).splitlines()
        assert len({len(line.split(",")) for line in lines[1:]}) == 1
    first = unquote(links["over-time.csv"].partition(",")[2]).splitlines()
    assert first[0].startswith("time_s,offered,jsq mean,jsq least,jsq most")
    assert len(first) == 501


def test_figures_without_data_are_left_out(make, pools):
    bare = replace(pools, policies=tuple(replace(p, path=None) for p in pools.policies))
    fixed = make.comparison(
        "pool",
        [
            make.policy("pool", "threshold", "threshold(level=8)", 0.3, 1.0, 2),
            make.policy("pool", "jsq", "jsq", 0.5, 1.0, 32),
        ],
    )

    assert figures.paths(bare) is None
    assert figures.thresholds(bare) is None
    assert figures.thresholds(fixed) is None
    assert 'id="distribution"' in bare.page()


def test_a_page_can_be_made_when_every_policy_was_refused(queues):
    refused = PolicyResult("jiq", "jiq", {}, 1, "", "", unstable="load = 1.2 >= 1")

    page = replace(queues, policies=(refused,), differences=()).page()

    assert "load = 1.2 &gt;= 1" in page
    read(page)


def test_a_page_shows_a_single_run_without_error_bars(pools):
    lone = replace(
        pools,
        replications=1,
        policies=tuple(
            replace(p, metrics={k: Estimate(e.value, math.nan) for k, e in p.metrics.items()})
            for p in pools.policies
        ),
        differences=(),
    )

    assert "nan" not in lone.page().lower().replace("nanum", "").replace("isnan", "").replace(
        ": nan :", ""
    ).replace("? nan", "")


def test_the_page_is_written_whole(pools, tmp_path):
    text = pools.page(tmp_path / "compare.html")

    assert (tmp_path / "compare.html").read_text(encoding="utf-8") == text
    with pytest.raises(EquipoiseError, match="does not exist"):
        pools.page(tmp_path / "nowhere" / "compare.html")


def test_dark_and_printed_pages_and_phones_are_provided_for(pools):
    page = pools.page()

    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert 'name="viewport"' in page
    assert page.count('class="wide') == page.count('class="narrow') == 3


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_script_has_no_mistake_of_syntax(pools, tmp_path):
    script = re.search(r"<script>\n(.*)</script>", pools.page(), re.S).group(1)
    (tmp_path / "page.js").write_text(script)

    subprocess.run(["node", "--check", tmp_path / "page.js"], check=True)


def test_a_notebook_shows_the_table_and_the_reading(pools):
    html = pools._repr_html_()

    read(html)
    assert "<caption>" in html
    assert "cannot be told apart" in html
    assert len(html) < 30_000


# Axes.


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 10))
def test_ticks_are_inside_ascending_and_not_too_many(low, span, about):
    found = axes.ticks(low, low + span, about)

    assert found == sorted(set(found))
    assert all(low - 1e-6 * span <= x <= low + span * (1 + 1e-6) for x in found)
    assert 1 <= len(found) <= about + 1


@given(st.floats(1e-6, 1e3), st.floats(1.5, 1e6), st.integers(3, 10))
def test_log_ticks_are_inside_and_ascending(low, ratio, about):
    found = axes.log_ticks(low, low * ratio, about)

    assert found == sorted(set(found))
    assert all(low * 0.999 <= x <= low * ratio * 1.001 for x in found)


def test_an_hour_is_cut_into_quarters_and_a_day_into_hours():
    assert axes.time_axis(3600) == ("minutes", 60.0)
    assert axes.time_ticks(3600, 60.0, 4) == [0, 15, 30, 45, 60]
    assert axes.time_ticks(86400, 3600.0, 4) == [0, 6, 12, 18, 24]
    assert axes.time_axis(100) == ("seconds", 1.0)


@pytest.mark.parametrize("kind", ["linear", "log", "root"])
def test_a_scale_keeps_order_and_its_ends(kind):
    scale = axes.Scale(0.5, 200.0, 300.0, 10.0, kind)
    at = [scale(x) for x in np.geomspace(0.5, 200.0, 30)]

    assert at[0] == pytest.approx(300.0)
    assert at[-1] == pytest.approx(10.0)
    assert at == sorted(at, reverse=True)
    assert scale.clipped(1e9) == pytest.approx(10.0)


def test_labels_are_placed_where_they_do_not_cover_each_other():
    here = [[(10.0 * k, 0.0, 10.0 * k + 9, 10.0) for k in range(5)]] * 3

    chosen = axes.place(here, [[]] * 3, (0, 0, 100, 100))

    assert sorted(chosen) == [0, 1, 2]


@given(st.lists(st.floats(0, 200), min_size=1, max_size=10))
def test_names_at_the_end_of_lines_keep_their_order_and_distance(levels):
    out = figures.apart(levels, 18, -50, 400)

    order = np.argsort(levels, kind="stable")
    assert np.all(np.diff(np.array(out)[order]) >= 18 - 1e-6)


@pytest.mark.parametrize("kind", ["pools", "queues"])
def test_names_in_the_figures_do_not_cover_each_other(kind, request):
    comparison = request.getfixturevalue(kind)

    for draw in (figures.distribution, figures.cost):
        for picture in draw(comparison).pictures:
            boxes = []
            for text in re.findall(r'<text class="name[^>]*>[^<]*', picture):
                x, y = (float(re.search(rf' {k}="([-\d.]+)"', text).group(1)) for k in "xy")
                anchor = re.search(r'text-anchor="(\w+)"', text).group(1)
                boxes.append(figures.text_box(x, y, text.partition(">")[2], anchor, high=12))
            assert len(boxes) == len(comparison.policies)
            for a, b in itertools.combinations(boxes, 2):
                assert axes.overlap(a, b) == 0


# Palette.


def contrast(a, b):
    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_lines_and_words_stand_out_from_paper_in_light_and_dark():
    for look in palette.LOOKS:
        assert contrast(look.light, "#fffefb") >= 3
        assert contrast(look.words, "#fffefb") >= 4.5
        assert contrast(look.dark, "#15171a") >= 4.5


def test_policies_differ_in_colour_dash_and_marker_and_keep_their_own(pools):
    slots = palette.looks(pools.policies)

    assert len(set(slots)) == len(slots)
    assert slots[0] == palette.USUAL["jsq"]
    assert len({look.dash for look in palette.LOOKS}) == len(palette.LOOKS)
    assert len({look.marker for look in palette.LOOKS}) == len(palette.LOOKS)


def test_more_policies_than_looks_are_still_drawn(make):
    many = [make.policy("pool", f"p{i}", f"p{i}", 0.3 + i, 1.0, 0) for i in range(11)]
    comparison = make.comparison("pool", many)

    assert len(palette.looks(many)) == 11
    read(comparison.page())


# Matplotlib.


@pytest.mark.parametrize("kind", ["distribution", "path", "cost", "threshold"])
@pytest.mark.parametrize("fixture", ["pools", "queues"])
def test_figures_for_notebooks_have_labelled_axes(fixture, kind, request, tmp_path):
    figure = request.getfixturevalue(fixture).plot(kind)

    figure.savefig(tmp_path / "f.svg")
    said = [t.get_text() for t in figure.findobj(lambda a: hasattr(a, "get_text"))]
    wanted = {"distribution": "task", "path": "minutes", "cost": "messages", "threshold": "minutes"}
    assert any(wanted[kind] in text for text in said)


def test_an_unknown_figure_and_an_empty_one_say_so(pools):
    with pytest.raises(EquipoiseError, match="the figures are: distribution, path"):
        pools.plot("pie")
    with pytest.raises(EquipoiseError, match="nothing to draw"):
        replace(pools, policies=()).plot("path")


def test_the_scenario_is_shown_in_full(pools):
    page = pools.page()

    shown = re.search(r"<pre>(.*?)</pre>", page, re.S).group(1).replace("&quot;", '"')
    assert json.loads(shown) == pools.to_json()["scenario"]
