// Values on hover and by arrow keys. The page is complete without this; the numbers are
// those behind each figure's CSV link.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const show = (x) =>
    !Number.isFinite(x) ? "" : Number(x.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
  const percent = (x) => (x < 1e-4 ? "< 0.01" : show(Number((100 * x).toPrecision(3)))) + " %";

  // The first line of a CSV may quote names; the rest are plain numbers.
  function table(figure) {
    const text = decodeURIComponent(figure.querySelector("a.csv").href.split(",").slice(1).join(","));
    const lines = text.trim().split("\n");
    const names = [...lines[0].matchAll(/"((?:[^"]|"")*)"|([^,]+)/g)].map((m) =>
      m[1] === undefined ? m[2] : m[1].replaceAll('""', '"'));
    const rows = lines.slice(1).map((line) => line.split(",").map((v) => (v === "" ? NaN : +v)));
    return { names, rows };
  }

  function scale(text) {
    const [low, high, start, end, kind, unit] = text.split(",").map((v) => (isNaN(v) ? v : +v));
    const bend = { linear: (x) => x, log: Math.log, root: (x) => Math.log1p(x / unit) }[kind];
    const back = { linear: (u) => u, log: Math.exp, root: (u) => unit * Math.expm1(u) }[kind];
    const [a, b] = [bend(low), bend(high)];
    return {
      at: (x) => start + ((bend(x) - a) / (b - a)) * (end - start),
      of: (p) => back(a + ((Math.min(Math.max(p, start), end) - start) / (end - start)) * (b - a)),
    };
  }

  function nearest(rows, x) {
    let [low, high] = [0, rows.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (rows[middle][0] < x) low = middle; else high = middle;
    }
    return Math.abs(rows[low][0] - x) <= Math.abs(rows[high][0] - x) ? low : high;
  }

  function position(event, svg) {
    const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [p.x, p.y];
  }

  function place(svg, x, y) {
    const p = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    tip.hidden = false;
    tip.style.left = "0"; // near the edge it would be measured squeezed
    const { width, height } = tip.getBoundingClientRect();
    const page = document.documentElement.clientWidth;
    let left = p.x + 14;
    if (left + width > page - 8) left = Math.max(8, p.x - width - 14);
    tip.style.left = left + scrollX + "px";
    tip.style.top = Math.max(8, p.y - height / 2) + scrollY + "px";
  }

  function fill(head, lines) {
    tip.replaceChildren();
    const title = document.createElement("b");
    title.textContent = head;
    tip.append(title);
    for (const [name, value, look] of lines) {
      const row = document.createElement("div");
      const [left, right] = [document.createElement("span"), document.createElement("span")];
      left.textContent = name;
      if (look) left.className = look;
      right.textContent = value;
      row.append(left, right);
      tip.append(row);
    }
  }

  function cross(svg, x, box) {
    let line = svg.querySelector(".cross");
    if (!line) {
      line = document.createElementNS(SVG, "line");
      line.setAttribute("class", "cross");
      svg.append(line);
    }
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    line.setAttribute("y1", box[0]);
    line.setAttribute("y2", box[1]);
  }

  const clear = (figure) => {
    tip.hidden = true;
    figure.querySelectorAll(".cross").forEach((line) => line.remove());
    figure.querySelectorAll(".now").forEach((p) => (p.textContent = p.dataset.rest));
  };

  const words = document.querySelector("#over-time .axis-words, #threshold svg .title");
  const unit = (words ? words.textContent : "").match(/(days|hours|minutes|milliseconds|seconds)/);
  const length = { days: 86400, hours: 3600, minutes: 60, seconds: 1, milliseconds: 1e-3 };
  const moment = (t) => (unit ? `${show(t / length[unit[0]])} ${unit[0]}` : `${show(t)} s`);

  for (const figure of document.querySelectorAll("figure")) {
    if (figure.id === "cost") {
      scatter(figure);
      continue;
    }
    let data = null;
    let index = 0;
    const seconds = figure.id === "distribution" || !unit ? 1 : length[unit[0]];
    const looks = () => {
      const found = {};
      document.querySelectorAll("th[data-label]").forEach((th) => {
        const line = th.querySelector(".line");
        if (line) found[th.dataset.label] = line.getAttribute("class").replace("line ", "");
      });
      return found;
    };
    const look = looks();

    const draw = (svg) => {
      const row = data.rows[index];
      const across = scale(svg.dataset.x);
      const up = svg.dataset.y.split(",").map(Number);
      const x = across.at(row[0] / seconds);
      if (figure.id === "over-time") {
        for (const panel of figure.querySelectorAll("svg.panel")) {
          const [mean, least, most] = row.slice(+panel.dataset.col, +panel.dataset.col + 3);
          cross(panel, x, [up[2], up[3]]);
          panel.parentElement.querySelector(".now").textContent = `${show(least)} to ${show(most)}, mean ${show(mean)}`;
        }
        fill(moment(row[0]), [["offered load", show(row[1])]]);
      } else if (figure.id === "distribution") {
        cross(svg, x, [up[2], up[3]]);
        const lines = data.names.slice(1).map((name, i) => [name, row[i + 1], look[name]]);
        const whole = data.names[0].startsWith("neighbours");
        const kept = lines.filter((line) => Number.isFinite(line[1])).sort((a, b) => a[1] - b[1]);
        fill(whole ? `at least ${show(row[0])} others` : `longer than ${show(row[0])} s`,
          kept.map(([name, v, c]) => [name, percent(v), c]));
      } else {
        cross(svg, x, [up[2], up[3]]);
        fill(moment(row[0]), data.names.slice(1).map((name, i) =>
          [name === "offered" ? "offered load" : name, show(row[i + 1]), look[name]]));
      }
      place(svg, x, (up[2] + up[3]) / 2);
    };

    for (const svg of figure.querySelectorAll("svg[data-x]")) {
      svg.addEventListener("pointermove", (event) => {
        data ??= table(figure);
        index = nearest(data.rows, scale(svg.dataset.x).of(position(event, svg)[0]) * seconds);
        draw(svg);
      });
      svg.addEventListener("pointerleave", () => clear(figure));
      svg.addEventListener("blur", () => clear(figure));
      svg.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
        if (event.key === "Escape") clear(figure);
        if (by === undefined) return;
        event.preventDefault();
        data ??= table(figure);
        index = Math.min(Math.max(index + by * (figure.id === "distribution" ? 1 : 5), 0), data.rows.length - 1);
        draw(svg);
      });
    }
  }

  function scatter(figure) {
    for (const svg of figure.querySelectorAll("svg.scatter")) {
      const spots = [...svg.querySelectorAll(".point")];
      svg.querySelectorAll("title").forEach((title) => title.remove()); // ours is quicker
      svg.addEventListener("pointermove", (event) => {
        const [x, y] = position(event, svg);
        const gap = (p) => Math.hypot(p.dataset.px - x, p.dataset.py - y);
        const spot = spots.reduce((a, b) => (gap(a) <= gap(b) ? a : b));
        if (gap(spot) > 40) return clear(figure);
        const [name, ...rest] = spot.dataset.text.split(": ");
        fill(name, rest.join(": ").split(", ").map((line) => [line, ""]));
        place(svg, +spot.dataset.px, +spot.dataset.py);
      });
      svg.addEventListener("pointerleave", () => clear(figure));
    }
  }
})();
