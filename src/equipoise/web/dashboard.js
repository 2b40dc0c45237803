// Asks /history every second and draws what it says. Counters come as they are; rates, means and
// quantiles are made here, from differences between two samples.
(() => {
  "use strict";
  const SVG = "http://www.w3.org/2000/svg";
  const $ = (id) => document.getElementById(id);
  const SPAN = 600; // s that are shown
  const KEPT = 601; // samples
  const LATE = 3; // s without an answer, after which it is said
  const SMOOTH = 10; // s over which points of lines are taken
  const SHOWN = 8; // events, before the older ones are folded away
  const WORDS = { up: "serving", new: "not up yet" };
  const UNHEARD = ["unheard", "refused"]; // states of agents
  const CLASS = { up: "up", "slow start": "slow", draining: "leaving", down: "down", ejected: "ejected", new: "new" };
  const RANK = ["down", "ejected", "draining", "new", "slow start", "up"]; // worst first
  // what is drawn for a state, in a square of 12
  const SIGNS = {
    up: "M6 6m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
    "slow start": "M2 10L6 3L10 10z",
    draining: "M2.5 2v8M2.5 6h7M7 3.500L9.5 6L7 8.5",
    down: "M2.5 2.500L9.5 9.500M9.5 2.500L2.5 9.5",
    ejected: "M6 1.500v5.500M6 10.300v.1",
    new: "M6 6m-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
  };

  let now = null; // the last answer, but for its samples
  const past = { start: "", first: 0, at: [], values: {}, buckets: [] };

  // -- numbers ----------------------------------------------------------------------------------

  /** Three digits. */
  function digits(x) {
    if (x === null || !Number.isFinite(x)) return "–";
    const size = Math.abs(x);
    if (size >= 99.95) return Math.round(x).toLocaleString("en");
    if (size === 0) return "0";
    return size >= 9.995 ? x.toFixed(1) : size >= 0.0995 ? x.toFixed(2) : Number(x.toPrecision(2)).toString();
  }

  /** A time in s as a number and its unit. */
  function duration(s, write = digits) {
    if (s === null || !Number.isFinite(s)) return ["–", ""];
    if (s < 0.0009995) return [write(s * 1e6), "µs"];
    if (s < 0.9995) return [write(s * 1e3), "ms"];
    return s < 119.5 ? [write(s), "s"] : [write(s / 60), "min"];
  }

  /** Two digits: what is interpolated is not known better. */
  const rough = (s) => duration(s, (x) => (x < 10 && x > 0 ? x.toPrecision(2) : Number(x.toPrecision(2)).toLocaleString("en")));

  /** How long something has been so, in words. */
  function age(s) {
    if (s < 60) return `${Math.floor(s)} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  }

  const clock = (time, seconds = true) =>
    new Date(time * 1000).toLocaleTimeString("en-GB", seconds ? {} : { hour: "2-digit", minute: "2-digit" });

  const many = (n, one, more = one + "s") => `${n.toLocaleString("en")} ${n === 1 ? one : more}`;

  /** The quantile of a histogram, as Prometheus has it: even within a bucket, above the last bound that bound. */
  function quantile(q, counts, bounds) {
    const all = counts.reduce((a, b) => a + b, 0);
    if (!(all > 0)) return null;
    const rank = q * all;
    let below = 0;
    for (let i = 0; i < bounds.length; i++) {
      if (below + counts[i] >= rank && counts[i] > 0) {
        const low = i ? bounds[i - 1] : 0;
        return { value: low + ((bounds[i] - low) * (rank - below)) / counts[i], low, high: bounds[i] };
      }
      below += counts[i];
    }
    return { value: bounds.at(-1), low: bounds.at(-1), high: Infinity };
  }

  // -- the past ---------------------------------------------------------------------------------

  function take(answer) {
    const { samples } = answer;
    if (answer.start !== past.start || samples.first !== past.first + past.at.length) {
      Object.assign(past, { start: answer.start, first: samples.first, at: [], values: {}, buckets: samples.buckets.map(() => []) });
    }
    past.at.push(...samples.at);
    for (const [name, column] of Object.entries(samples.values)) (past.values[name] ??= []).push(...column);
    samples.buckets.forEach((column, i) => past.buckets[i].push(...column));
    const over = past.at.length - KEPT;
    if (over > 0) {
      past.first += over;
      for (const column of [past.at, ...Object.values(past.values), ...past.buckets]) column.splice(0, over);
    }
    now = answer;
  }

  /** The sample so many seconds before the i-th, or the first. */
  function before(i, seconds) {
    let k = Math.max(0, i - Math.round(seconds));
    while (k > 0 && past.at[i] - past.at[k] < seconds - 0.5) k--;
    while (k < i - 1 && past.at[i] - past.at[k] > seconds + 0.5) k++;
    return k;
  }

  function change(name, i, seconds) {
    const column = past.values[name];
    return column ? column[i] - column[before(i, seconds)] : 0;
  }

  function rate(name, i, seconds) {
    const time = past.at[i] - past.at[before(i, seconds)];
    return time > 0 ? change(name, i, seconds) / time : null;
  }

  const ratio = (a, b) => (b > 0 ? a / b : null);

  /** By Little's law: tasks sent per second, times the mean time at a server, by servers that are up. */
  function load(i) {
    const mean = ratio(change("server_duration_seconds_sum", i, SMOOTH), change("server_duration_seconds_count", i, SMOOTH));
    const sent = rate("server_started_total", i, SMOOTH);
    if (sent === 0) return 0;
    return mean === null || sent === null ? null : ratio(sent * mean, past.values.servers_up[i]);
  }

  function response(q, i, seconds) {
    const k = before(i, seconds);
    return quantile(q, past.buckets.map((column) => column[i] - column[k]), now.bounds);
  }

  // -- drawing ----------------------------------------------------------------------------------

  function draw(name, attributes = {}, ...inside) {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(key, value);
    node.append(...inside);
    return node;
  }

  const write = (x, y, text, look) => draw("text", { x, y, class: look }, text);

  function say(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  function sign(state) {
    const solid = state === "up" ? "bar up" : "sign";
    return draw("svg", { viewBox: "0 0 12 12", "aria-hidden": "true", class: CLASS[state] },
      draw("path", { d: SIGNS[state], class: `${solid} ${CLASS[state]}` }));
  }

  /** A step of 1, 2 or 5 times a power of ten, that makes about so many of it. */
  function step(range, wanted) {
    const raw = range / wanted;
    const ten = 10 ** Math.floor(Math.log10(raw));
    return ten * [1, 2, 5, 10].find((x) => x * ten >= raw * 0.999);
  }

  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

  /** Lines through points, broken where there is none. */
  function pieces(points) {
    const found = [[]];
    for (const point of points) point[1] === null ? found.at(-1).length && found.push([]) : found.at(-1).push(point);
    return found.filter((piece) => piece.length);
  }

  function spark(svg, points, most) {
    const [width, height] = [svg.clientWidth, 22];
    const start = past.at[0], end = past.at.at(-1);
    const top = Math.max(most, 1e-9);
    const across = (t) => ((t - start) / Math.max(end - start, 1)) * width;
    const up = (v) => height - 1 - (v / top) * (height - 3);
    const placed = points.filter((p) => p[1] !== null).map(([t, v]) => [across(t), up(v)]);
    svg.replaceChildren();
    if (placed.length < 2) return;
    const area = [...placed, [placed.at(-1)[0], height], [placed[0][0], height]];
    svg.append(draw("path", { class: "sparkfill", d: path(area) + "z" }), draw("path", { class: "spark", d: path(placed) }));
  }

  const all = () => past.at.keys();
  const last = () => past.at.length - 1;

  function figures() {
    const i = last();
    const put = (key, text, unit) => {
      const dd = $(`f-${key}`);
      const whole = `${text}|${unit}`;
      if (dd.dataset.was === whole) return;
      dd.dataset.was = whole;
      const small = document.createElement("span");
      small.className = "unit";
      small.textContent = unit;
      dd.replaceChildren(text, " ", small);
    };
    const line = (key, of) => {
      const svg = $(`f-${key}`).parentElement.querySelector("svg");
      const points = [...all()].map((k) => [past.at[k], of(k)]);
      spark(svg, points, Math.max(...points.map((p) => p[1] ?? 0)));
    };
    const v = past.values;
    put("requests", digits(rate("proxy_requests_total", i, SMOOTH)), "per s");
    put("flight", v.proxy_under_way[i].toLocaleString("en"), v.proxy_under_way[i] === 1 ? "request" : "requests");
    put("errors", digits(rate("errors_total", i, 60)), "per s");
    put("messages", digits(ratio(change("messages_total", i, 60), change("server_started_total", i, 60))), "per task");
    for (const [key, q] of [["median", 0.5], ["p99", 0.99]]) {
      const found = response(q, i, 60);
      put(key, ...rough(found && found.value));
      const far = found && found.high === Infinity;
      say($(`m-${key}`), !found ? "no request in the last minute"
        : far ? `more than ${bound(found.low)}`
        : between(bound(found.low), bound(found.high)));
    }
    $("f-errors").classList.toggle("some", change("errors_total", i, 60) > 0);
    line("requests", (k) => rate("proxy_requests_total", k, SMOOTH));
    line("flight", (k) => v.proxy_under_way[k]);
    line("errors", (k) => rate("errors_total", k, SMOOTH));
    line("messages", (k) => ratio(change("messages_total", k, SMOOTH), change("server_started_total", k, SMOOTH)));

    say($("x-up"), `up for ${age(now.up)}`);
    const { count, silent } = now.workers;
    $("x-workers").hidden = count === 1;
    say($("x-workers"), `${count} workers` + (silent.length ? `, ${silent.length} not answering` : ""));
    say($("x-clients"), many(v.proxy_clients[i], "client connection"));
    say($("x-queued"), `${v.proxy_queued[i].toLocaleString("en")} waiting for a server`);
    say($("x-retries"), `${many(change("retries_total", i, 60), "retry", "retries")} in the last minute`);
    const tokens = Object.entries(now.tokens);
    $("x-tokens").hidden = !tokens.length;
    say($("x-tokens"), `tokens: ${tokens.map(([colour, n]) => `${n.toLocaleString("en")} ${colour}`).join(", ")}`);
    $("x-agents").hidden = now.agents.count === undefined;
    say($("x-agents"), `agents: ${now.agents.open} of ${now.agents.count} heard`);
  }

  /** Two bounds, the unit once where it is the same. */
  function between(low, high) {
    const [number, unit] = low.split(" ");
    return `between ${high.endsWith(` ${unit}`) || number === "0" ? number : low} and ${high}`;
  }

  /** A bucket's bound, without zeros behind the point. */
  function bound(s) {
    return s < 1 ? `${+(s * 1e3).toFixed(2)} ms` : s < 60 ? `${s} s` : `${s / 60} min`;
  }

  // -- servers ----------------------------------------------------------------------------------

  /** What is drawn as one bar: a server, or neighbours of which there are too many to be drawn. */
  function columns(width) {
    let found = now.servers.groups
      ? now.servers.groups.map((g) => ({ ...g }))
      : now.servers.rows.map((r) => ({ ...r, first: r.name, last: r.name, count: 1, least: r.slots, most: r.slots, promise: r.most, states: { [r.state]: 1 } }));
    const each = Math.ceil((found.length * 5) / width);
    if (each > 1) {
      const merged = [];
      for (let i = 0; i < found.length; i += each) merged.push(found.slice(i, i + each).reduce(merge));
      found = merged;
    }
    for (const one of found) one.worst = RANK.find((state) => one.states[state]);
    return found;
  }

  function merge(a, b) {
    const states = { ...a.states };
    for (const [state, n] of Object.entries(b.states)) states[state] = (states[state] ?? 0) + n;
    return { first: a.first, last: b.last, count: a.count + b.count, slots: a.slots + b.slots, states,
      least: Math.min(a.least, b.least), most: Math.max(a.most, b.most) };
  }

  function told(one) {
    if (one.count > 1) {
      const out = Object.entries(one.states).filter(([state]) => state !== "up").map(([state, n]) => `, ${n} ${WORDS[state] ?? state}`);
      return `${one.first} to ${one.last}: ${many(one.slots, "task")}, ${one.least} to ${one.most} at a server${out.join("")}`;
    }
    const parts = [`${one.first}: ${WORDS[one.state] ?? one.state} for ${age(one.for)}`, many(one.slots, "task")];
    if (one.why) parts[0] += ` (${one.why})`;
    if (one.promise !== undefined) parts.push(`at most ${one.promise}, told ${age(one.told)} ago`);
    if (one.limit !== null) parts.push(`limit ${one.limit}`);
    if (one.agent) parts.push(`agent ${heard(one.agent)}`);
    return parts.join(", ");
  }

  /** Names as they fit: whole, without what all begin with, or none. */
  function fitting(names, room) {
    const wide = (list) => Math.max(...list.map((name) => name.length)) * 6.7;
    if (wide(names) <= room) return names;
    let same = 0;
    while (names.every((name) => name.length > same + 1 && name[same] === names[0][same])) same++;
    const cut = Math.max(...[...names[0].slice(0, same)].map((c, i) => (/\w/.test(c) ? 0 : i + 1)), 0);
    for (const at of [cut, same]) {
      const short = names.map((name) => name.slice(at));
      if (at && wide(short) <= room) return short;
    }
    return null;
  }

  /** The threshold as it compares with the tasks of all workers, and in words. */
  const together = (threshold) => (threshold === null ? null : threshold * now.workers.apart);
  const times = (threshold) => `${threshold}` + (now.workers.apart > 1 ? ` at each of ${now.workers.apart} workers` : "");

  function bars() {
    const svg = $("bars");
    const width = svg.clientWidth;
    if (!width) return;
    const left = 30, tall = 190;
    const shown = columns(width - left);
    const many_ = now.servers.groups !== null || shown.some((one) => one.count > 1);
    const each = (width - left) / Math.max(shown.length, 1);
    const thick = Math.max(1.5, Math.min(each - (each < 8 ? 1 : Math.max(2, each * 0.3)), 54));
    const names = many_ ? null : fitting(shown.map((one) => one.first), each - 5);
    const words = !many_ && each > 62;
    const foot = (names ? 18 : 6) + (words ? 15 : 0);
    const threshold = together(now.threshold);
    const busy = Math.max(2, ...shown.map((one) => Math.max(one.most, one.promise ?? 0)), threshold ?? 0);
    const limits = shown.map((one) => one.limit).filter((l) => l && l <= 4 * busy);
    const high = Math.max(busy, ...limits) * 1.06;
    const unit = Math.max(1, step(high, 5));
    const top = shown.some((one) => one.worst !== "up" && one.slots > 0.7 * high) ? 38 : 18; // room for signs
    const bottom = top + tall;
    const y = (v) => bottom - (v / high) * tall;
    svg.setAttribute("viewBox", `0 0 ${width} ${bottom + foot}`);
    svg.setAttribute("height", bottom + foot);
    const parts = [patterns()];
    const above = []; // what stands before the threshold's line
    for (let v = 0; v <= high; v += unit) {
      parts.push(draw("line", { class: v ? "rule" : "axis", x1: left, x2: width, y1: y(v), y2: y(v) }),
        write(left - 8, y(v) + 4, v.toLocaleString("en"), "right"));
    }
    shown.forEach((one, i) => {
      const middle = left + (i + 0.5) * each;
      const x = middle - thick / 2;
      const mean = one.slots / one.count;
      const out = one.worst !== "up" && one.worst !== "slow start";
      const look = many_ && one.states.up ? "up" : CLASS[one.worst];
      const diamond = !many_ && one.promise !== undefined && one.promise <= high && each >= 12 ? y(one.promise) : null;
      const group = draw("g", { class: look }, draw("title", {}, told(one)));
      if (out) group.append(draw("rect", { class: `column ${CLASS[one.worst]}`, x: left + i * each + Math.min(1, each * 0.1), width: Math.max(each - 2, each * 0.8), y: top, height: tall }));
      else group.append(draw("rect", { fill: "transparent", x: left + i * each, width: each, y: top, height: tall }));
      if (one.count > 1 && one.most > mean) group.append(draw("line", { class: "whisker", x1: middle, x2: middle, y1: y(mean), y2: y(one.most) }));
      if (mean > 0) group.append(draw("rect", { class: `bar ${look}`, x, width: thick, y: y(mean), height: bottom - y(mean) }));
      if (one.limit && one.limit <= high && !out) group.append(draw("line", { class: "limit", x1: x - 2, x2: x + thick + 2, y1: y(one.limit), y2: y(one.limit) }));
      if (diamond !== null) group.append(draw("path", { class: "most", d: `M${middle} ${diamond - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5z` }));
      const over = diamond !== null && Math.abs(diamond - y(mean) + 6) < 14 ? Math.min(diamond - 4, y(mean)) : y(mean);
      const label = !many_ && each >= 20 ? over - 6 : null; // clear of the diamond
      if (one.worst !== "up") {
        const size = Math.min(14, Math.max(each - 1, 5));
        const at = Math.min(label === null || !mean ? y(mean) - 4 - size : label - 14 - size, bottom - size - 4);
        above.push(draw("svg", { x: middle - size / 2, y: Math.max(at, 0), width: size, height: size, viewBox: "0 0 12 12", class: CLASS[one.worst], overflow: "visible" },
          draw("path", { d: SIGNS[one.worst], class: `sign ${CLASS[one.worst]}` })));
      }
      if (label !== null && (mean > 0 || one.worst === "up")) above.push(write(middle, label, one.slots.toLocaleString("en"), "value on middle"));
      if (names) group.append(write(middle, bottom + 15, names[i], "name middle"));
      const word = one.state !== "up" ? WORDS[one.state] ?? one.state : UNHEARD.includes(one.agent?.state) ? "not heard" : "";
      if (words && word) group.append(write(middle, bottom + 30, word, "word middle"));
      parts.push(group);
    });
    if (threshold !== null) {
      parts.push(draw("line", { class: "threshold across", x1: left, x2: width, y1: y(threshold), y2: y(threshold) }));
    }
    svg.replaceChildren(...parts, draw("g", { class: "above" }, ...above));
    const tasks = shown.map((one) => (one.count > 1 ? null : one.slots));
    svg.setAttribute("aria-label", many_ || shown.length > 20
      ? `Tasks at ${many(now.servers.count, "server")}, in groups.`
      : `Tasks at ${many(shown.length, "server")}: ${tasks.join(", ")}.` + (threshold === null ? "" : ` Threshold ${times(now.threshold)}.`));
    legend(shown, many_, high, limits.length > 0);
  }

  function patterns() {
    const hatch = draw("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)", class: "slow" },
      draw("line", { class: "ink", x1: 1, x2: 1, y1: 0, y2: 5, "stroke-width": 2.4 }));
    const lines = draw("pattern", { id: "lines", width: 4, height: 4, patternUnits: "userSpaceOnUse", class: "leaving" },
      draw("line", { class: "ink", x1: 0, x2: 4, y1: 1, y2: 1, "stroke-width": 1.6 }));
    return draw("defs", {}, hatch, lines);
  }

  function legend(shown, grouped, high, limits) {
    const entry = (mark, text) => {
      const li = document.createElement("li");
      li.append(mark, text);
      return li;
    };
    const swatch = (look) => {
      const i = document.createElement("i");
      i.className = `swatch ${look}`;
      return i;
    };
    const found = [...RANK].reverse().filter((state) => now.servers.states[state])
      .map((state) => entry(sign(state), `${now.servers.states[state].toLocaleString("en")} ${WORDS[state] ?? state}`));
    if (now.threshold !== null) {
      const li = entry(swatch("threshold dashed"), `threshold ${times(now.threshold)}`);
      found.push(li);
    }
    if (limits) found.push(entry(swatch("limit"), "a server’s limit"));
    if (shown.some((one) => one.promise !== undefined)) found.push(entry(swatch("most"), "at most, by what it told"));
    if (grouped) found.push(entry("", `each bar about ${many(Math.round(now.servers.count / shown.length), "server")}: their mean, and the fullest`));
    const text = found.map((li) => li.textContent).join();
    if ($("states").dataset.was === text) return;
    $("states").dataset.was = text;
    $("states").replaceChildren(...found);
  }

  function table() {
    const { rows, count, found, groups } = now.servers;
    const body = $("table").tBodies[0];
    const has = (key) => rows.some((row) => row[key] !== undefined && row[key] !== null);
    for (const key of ["limit", "most", "agent"]) $("table").classList.toggle(`no-${key}`, !has(key));
    while (body.rows.length > rows.length) body.deleteRow(-1);
    while (body.rows.length < rows.length) body.append(blank());
    const rates = alike(rows.map((row) => row.rate));
    const longest = Math.max(0, ...rows.map((row) => row.mean ?? 0));
    const unit = longest < 0.9995 ? 1e-3 : 1;
    const means = alike(rows.map((row) => row.mean / unit));
    say($("u-mean"), unit === 1 ? "s" : "ms");
    rows.forEach((row, i) => {
      const tr = body.rows[i];
      const [name, state, slots, limit, most, rate_, mean, failures, agent] = tr.cells;
      const words = WORDS[row.state] ?? row.state;
      const since = `for ${age(row.for)}` + (row.why ? `: ${row.why}` : "");
      if (tr.dataset.state !== row.state) {
        tr.dataset.state = row.state;
        state.firstChild.replaceWith(sign(row.state));
        name.children[1].firstChild.replaceWith(sign(row.state));
      }
      say(name.children[0], row.name);
      const agent_ = row.agent && row.agent.state !== "open" ? `; agent ${heard(row.agent)}` : "";
      say(name.children[1].lastChild, `${words}, ${age(row.for)}` + (row.why ? `: ${row.why}` : "") + agent_);
      say(state.children[1], words);
      say(state.children[2], ` ${since}`);
      say(slots, row.slots.toLocaleString("en"));
      say(limit, row.limit === null ? "none" : row.limit.toLocaleString("en"));
      say(most, row.most === undefined ? "" : `${row.most.toLocaleString("en")} (${row.told < 10 ? digits(row.told) + " s" : age(row.told)} ago)`);
      say(rate_, row.rate === undefined ? "" : rates(row.rate));
      say(mean, row.mean === undefined ? "" : means(row.mean / unit));
      say(failures, row.failures === undefined ? "" : row.failures.toLocaleString("en"));
      failures.classList.toggle("some", row.failures > 0);
      say(agent, row.agent ? heard(row.agent) : "");
      tr.title = row.address === row.name ? "" : row.address;
    });
    $("finding").hidden = groups === null;
    $("n-table").hidden = groups === null;
    const what = found === count ? `${many(count, "server")}` : `${many(found, "server")} found`;
    say($("n-table"), found > rows.length ? `${rows.length} of ${what}: those that do not serve, then the fullest.` : `${what}.`);
  }

  /** Write numbers of a column with as many decimals as give its largest three digits. */
  function alike(values) {
    const most = Math.max(0, ...values.filter(Number.isFinite));
    const decimals = most >= 99.95 ? 0 : most >= 9.995 ? 1 : 2;
    const format = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    return (x) => x.toLocaleString("en", format);
  }

  function heard(agent) {
    const since = agent.heard_seconds;
    const when = since === null ? "" : since < 1 ? " just now" : ` ${age(since)} ago`;
    return (agent.state === "open" ? "heard" + when : agent.state) + (agent.why ? `: ${agent.why}` : "");
  }

  function blank() {
    const tr = document.createElement("tr");
    const span = (look) => {
      const node = document.createElement("span");
      node.className = look;
      return node;
    };
    const name = document.createElement("th");
    name.scope = "row";
    const remark = span("remark");
    remark.append(sign("up"), span(""));
    name.append(span(""), remark);
    const state = document.createElement("td");
    state.className = "c-state";
    state.append(sign("up"), span(""), span("why"));
    tr.append(name, state);
    for (const look of ["n", "n c-limit", "n c-most", "n", "n", "n", "c-agent"]) {
      const cell = document.createElement("td");
      cell.className = look;
      tr.append(cell);
    }
    tr.dataset.state = "";
    return tr;
  }

  // -- lines over time --------------------------------------------------------------------------

  const charts = {};

  function chart(id, { lines, band, log, format, label }) {
    const figure = $(id);
    const svg = figure.querySelector("svg");
    const width = svg.clientWidth;
    if (!width) return;
    const left = 44, right = 6, top = 8, tall = 200, height = tall + top + 24;
    const end = past.at.at(-1);
    const span = Math.min(SPAN, Math.max(60, end - past.at[0]));
    const x = (t) => left + ((t - end + span) / span) * (width - left - right);
    const seen = (points) => points.filter((p) => p[0] >= end - span - 1);
    const values = [...lines.flatMap((line) => line.points), ...(band ?? [])].flatMap((p) => p.slice(1)).filter((v) => v !== null);
    const ticks = log ? decades(values) : linear(values);
    const [low, high] = [ticks[0], ticks.at(-1)];
    const bend = log ? Math.log : (v) => v;
    const y = (v) => top + tall - ((bend(v) - bend(low)) / (bend(high) - bend(low))) * tall;
    const parts = [];
    ticks.forEach((v, i) => {
      parts.push(draw("line", { class: i ? "rule" : "axis", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
      parts.push(write(left - 8, y(v) + 4, format(v), "right"));
    });
    const base = now.time - now.up; // when the samples' time began
    const gap = [5, 10, 15, 30, 60, 120, 300].find((g) => (span / g) * (g < 60 ? 74 : 56) <= width - left) ?? 600;
    for (let t = Math.ceil((base + end - span) / gap) * gap; t <= base + end; t += gap) {
      const at = x(t - base);
      if (at > width - (gap < 60 ? 24 : 14)) continue;
      parts.push(draw("line", { class: "axis", x1: at, x2: at, y1: top + tall, y2: top + tall + 4 }),
        write(at, top + tall + 19, clock(t, gap < 60), "middle"));
    }
    if (band) {
      const inside = seen(band);
      if (inside.length > 1) parts.push(draw("path", { class: "band", d: path([...stairs(inside.map((p) => [x(p[0]), y(p[2])])), ...stairs(inside.map((p) => [x(p[0]), y(p[1])])).reverse()]) + "z" }));
    }
    parts.push(...happened(base, end, span, x, top, tall));
    for (const line of lines) {
      for (const piece of pieces(seen(line.points))) {
        const placed = piece.map(([t, v]) => [x(t), y(v)]);
        parts.push(draw("path", { class: line.look, d: path(line.steps ? stairs(placed) : placed) }));
      }
    }
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    svg.setAttribute("aria-label", label);
    svg.replaceChildren(...parts);
    charts[id] = { svg, x, left, width: width - right, end, span, top, tall };
  }

  /** Marks where servers came, went and failed. */
  function happened(base, end, span, x, top, tall) {
    const parts = [];
    let free = -Infinity;
    for (const event of now.events) {
      const at = event.time - base;
      const first = past.first ? 0 : past.at[0] + 0.5; // not those that were there when it started
      if (at < end - span || at < first || at > end || event.text.startsWith("threshold ")) continue;
      const place = x(at);
      if (place < free) continue;
      free = place + 4;
      parts.push(draw("g", {}, draw("title", {}, `${clock(event.time)} ${event.text}`),
        draw("line", { class: "happened", x1: place, x2: place, y1: top, y2: top + tall }),
        draw("path", { class: "happenedmark", d: `M${place} ${top + tall - 7}l4 7h-8z` })));
    }
    return parts;
  }

  function stairs(points) {
    return points.flatMap((p, i) => (i ? [[p[0], points[i - 1][1]], p] : [p]));
  }

  function linear(values) {
    const most = Math.max(1, ...values);
    const unit = step(most, 5);
    return [...Array(Math.ceil(most / unit - 1e-9) + 1).keys()].map((k) => k * unit);
  }

  /** 1, 2 and 5 times powers of ten around the values; powers of ten alone where that is too many. */
  function decades(values) {
    const good = values.filter((v) => v > 0);
    const [least, most] = good.length ? [Math.min(...good), Math.max(...good)] : [0.001, 1];
    const ladder = [];
    for (let p = -7; p < 6; p++) ladder.push(...[1, 2, 5].map((m) => Number(`${m}e${p}`)));
    let low = ladder.findLastIndex((v) => v <= least), high = ladder.findIndex((v) => v >= most);
    while (high - low < 3) high - low && low > 0 && least / ladder[low] < 1.5 ? low-- : high++;
    const cut = ladder.slice(low, high + 1);
    if (cut.length <= 6) return cut;
    const tens = cut.filter((v, i) => i === 0 || i === cut.length - 1 || /^1e|^(0\.)?0*1$|^10*$/.test(String(v)));
    return tens.filter((v, i) => i === 0 || i === tens.length - 1 || (v / tens[0] > 2.5 && tens.at(-1) / v > 2.5));
  }

  const read = { at: null }; // the sample whose values the legends tell; null: the last

  function lines() {
    const points = (of) => [...all()].map((i) => [past.at[i], of(i)]);
    const v = past.values;
    const offered = points(load);
    const threshold = v.threshold ? points((i) => together(v.threshold[i])) : [];
    const spread = [...all()].map((i) => [past.at[i], v.least_slots[i], v.most_slots[i]]);
    const quantiles = { median: points((i) => response(0.5, i, SMOOTH)?.value ?? null), p99: points((i) => response(0.99, i, SMOOTH)?.value ?? null) };
    const restless = threshold.filter((p, i) => i && p[1] !== threshold[i - 1][1]).length > 50;
    charts.data = { offered, threshold, spread, ...quantiles };
    readout();
    chart("load", {
      lines: [{ look: `threshold${restless ? " restless" : ""}`, points: threshold, steps: true }, { look: "line load", points: offered }],
      band: spread,
      format: digits_,
      label: `Offered load per server ${digits(offered.at(-1)[1])} now` + (now.threshold === null ? "." : `, threshold ${times(now.threshold)}.`),
    });
    const words = (name) => rough(charts.data[name].at(-1)[1]).join(" ");
    chart("response", {
      lines: [{ look: "line median", points: quantiles.median }, { look: "line p99", points: quantiles.p99 }],
      log: true,
      format: (s) => (s < 0.001 ? `${+(s * 1e6).toFixed(1)} µs` : s < 1 ? `${+(s * 1e3).toFixed(1)} ms` : `${s} s`),
      label: `Median response ${words("median")}, 99th percentile ${words("p99")}, over ten seconds.`,
    });
    for (const id of ["load", "response"]) cross(id);
  }

  const digits_ = (v) => (Number.isInteger(v) ? v.toLocaleString("en") : String(+v.toFixed(3)));

  /** Tell the values of a moment in the legends. */
  function readout() {
    const { offered, threshold, spread, median, p99 } = charts.data;
    const i = read.at === null ? last() : Math.min(Math.max(read.at - past.first, 0), last());
    const put = (id, text) => say($(`r-${id}`).querySelector("b"), text);
    $("r-threshold").hidden = !threshold.length;
    say($("t-load"), threshold.length ? "Threshold and offered load" : "Offered load");
    const at = past.values.threshold?.[i] ?? null;
    put("threshold", threshold.length ? (at === null ? "–" : String(at) + (now.workers.apart > 1 ? ` × ${now.workers.apart}` : "")) : "");
    put("load", digits(offered[i][1]));
    put("spread", `${spread[i][1].toLocaleString("en")} to ${spread[i][2].toLocaleString("en")}`);
    put("median", rough(median[i][1]).join(" "));
    put("p99", rough(p99[i][1]).join(" "));
    say($("r-at"), read.at === null ? "" : `at ${clock(now.time - now.up + past.at[i])}`);
  }

  function cross(id) {
    const c = charts[id];
    if (!c) return;
    c.svg.querySelector(".cross")?.remove();
    if (read.at === null) return;
    const at = c.x(past.at[Math.min(Math.max(read.at - past.first, 0), last())]);
    if (at >= c.left) c.svg.append(draw("line", { class: "cross", x1: at, x2: at, y1: c.top, y2: c.top + c.tall }));
  }

  function look(at) {
    read.at = at;
    readout();
    for (const id of ["load", "response"]) cross(id);
  }

  for (const id of ["load", "response"]) {
    const svg = $(id).querySelector("svg");
    svg.addEventListener("pointermove", (event) => {
      const c = charts[id];
      if (!c) return;
      const t = c.end - c.span + ((event.clientX - svg.getBoundingClientRect().left - c.left) / (c.width - c.left)) * c.span;
      let near = 0;
      past.at.forEach((at, i) => { if (Math.abs(at - t) < Math.abs(past.at[near] - t)) near = i; });
      look(past.first + near);
    });
    svg.addEventListener("pointerleave", () => charts.data && look(null));
    svg.addEventListener("blur", () => charts.data && look(null));
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -5, ArrowRight: 5, PageUp: -60, PageDown: 60 }[event.key];
      if (event.key === "Escape" && charts.data) look(null);
      if (by === undefined || !charts.data) return;
      event.preventDefault();
      look(Math.min(Math.max((read.at ?? past.first + last()) + by, past.first), past.first + last()));
    });
  }

  // -- events -----------------------------------------------------------------------------------

  function events() {
    const text = JSON.stringify(now.events);
    if ($("events").dataset.was === text) return;
    $("events").dataset.was = text;
    const found = [...now.events].reverse().map((event) => {
      const li = document.createElement("li");
      const time = document.createElement("time");
      time.dateTime = new Date(event.time * 1000).toISOString();
      time.textContent = clock(event.time);
      const words = document.createElement("span");
      const { workers } = event; // those that noticed it
      const who = workers.length && workers.length < now.workers.count ? ` (${workers.length === 1 ? "worker" : "workers"} ${workers.join(", ")})` : "";
      words.textContent = event.text.replace(" -> ", " → ") + who + (event.times > 1 ? `, ${event.times} moves since ${clock(event.since)}` : "");
      const state = RANK.find((s) => event.text.includes(` is ${s}`)) ?? (event.text.endsWith(" is gone") ? "draining"
        : / was not heard|^no server is heard/.test(event.text) ? "ejected"
        : / is heard again$|^servers are heard/.test(event.text) ? "up" : null);
      li.append(time, state ? sign(state) : draw("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" },
        draw("path", { class: "threshold", d: event.text.startsWith("threshold ") ? "M1 9h5V3h5" : "M3 6h6" })), words);
      return li;
    });
    $("n-events").hidden = found.length > 0;
    const older = found.splice(SHOWN);
    $("events").replaceChildren(...found);
    $("older").hidden = !older.length;
    $("older").querySelector("summary").textContent = `${many(older.length, "older event")}`;
    $("older").querySelector("ol").replaceChildren(...older);
  }

  // -- asking -----------------------------------------------------------------------------------

  let timer = 0, answered = performance.now(), wrong = "", asking = false;

  function show() {
    const { level, words, more } = now.health;
    if ($("health").dataset.level !== level) $("health").dataset.level = level;
    say($("health"), words);
    say($("more"), more.join(" "));
    $("more").hidden = !more.length;
    say($("policy"), now.policy);
    document.title = `${level === "good" ? "" : level === "watch" ? "△ " : "✕ "}${words.replace(/\.$/, "")} · Equipoise`;
    document.body.classList.add("told");
    figures();
    bars();
    lines();
    table();
    events();
  }

  function freshness() {
    const seconds = (performance.now() - answered) / 1000;
    const late = seconds > LATE || (wrong && seconds > 1.5);
    document.body.classList.toggle("stale", Boolean(late));
    say($("late"), late ? "The dispatcher does not answer" : "");
    say($("when"), late ? `: no answer since ${age(seconds)}` : now ? clock(now.time) : "");
    if (late) document.title = "? no answer · Equipoise";
    if (late && !now) say($("health"), "The dispatcher does not answer");
  }

  async function ask() {
    if (asking) return;
    asking = true;
    clearTimeout(timer);
    let wait = 1000;
    try {
      const query = new URLSearchParams({ since: past.first + past.at.length, start: past.start });
      if ($("find").value) query.set("find", $("find").value);
      const answer = await fetch(`history?${query}`, { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const data = await answer.json();
      take(data);
      answered = performance.now();
      wrong = "";
      wait = Math.min(Math.max(data.next * 1000 + 40, 250), 2000); // just after the next sample
    } catch (error) {
      wrong = String(error);
    }
    asking = false;
    if (!document.hidden) timer = setTimeout(ask, wait);
    if (!wrong && past.at.length) show();
    freshness();
  }

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.hidden) return;
    answered = performance.now(); // it was not asked
    ask();
  });
  $("find").addEventListener("input", () => ask());
  new ResizeObserver(() => now && past.at.length && show()).observe($("main"));
  setInterval(() => document.hidden || freshness(), 1000);
  globalThis.equipoise = Object.freeze({ quantile, digits, duration, age, decades, linear, past });
  ask();
})();
