// Draws the figures, zooms the timeline, and puts marks under the pointer into words.
// All figures come from Python; what is done here is drawing, choosing marks and formatting.
(() => {
  "use strict";

  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const { themes, figures } = read("figures");
  const { unit, unit_ns: unitNs, max_drawn: maxDrawn, names, causes, lanes } = read("lanes");
  const dark = matchMedia("screen and (prefers-color-scheme: dark)");
  const print = matchMedia("print");
  const printWidth = 1010; // what a landscape page carries
  const config = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };
  const byName = (name) => document.querySelector(`[data-figure="${name}"]`);

  // ---- themes -----------------------------------------------------------------------------
  const partner = new Map(
    Object.entries(themes.light).map(([role, colour]) => [colour, themes.dark[role]]),
  );
  const themed = (value) => {
    if (typeof value === "string") return (dark.matches && partner.get(value)) || value;
    if (Array.isArray(value)) return value.map(themed);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, themed(inner)]));
  };

  const draw = (name) => {
    const { data, layout } = themed(figures[name]);
    if (name === "timeline") fill(data);
    const width = print.matches ? printWidth : undefined;
    Plotly.react(byName(name), data, { ...layout, width, uirevision: "view" }, config);
  };
  const isShown = (name) => !byName(name).closest("details:not([open])");
  const drawAll = () => Object.keys(figures).filter(isShown).forEach(draw);

  // ---- marks of the timeline --------------------------------------------------------------
  const decoded = (columns) => {
    const count = columns.gap.length;
    const marks = new Array(count);
    let at = 0;
    for (let i = 0; i < count; i += 1) {
      const start = at + columns.gap[i];
      at = start + columns.length[i];
      marks[i] = {
        start,
        end: at,
        busy: columns.length[i] - (columns.pause ? columns.pause[i] : 0),
        rows: columns.rows ? columns.rows[i] : 1,
        bytes: columns.bytes ? columns.bytes[i] : 0,
        hidden: columns.hidden ? columns.hidden[i] : 0,
        name: columns.name ? columns.name[i] : -1,
      };
    }
    return marks;
  };
  const stallOf = (row) => {
    const [start, end, from, to, cause, way, op, kernel, transfers, proven] = row;
    return { start, end, busy: end - start, rows: 1, from, to, cause, way, op, kernel, transfers, proven };
  };
  for (const lane of lanes) {
    lane.fine = lane.stalls ? lane.stalls.map(stallOf) : decoded(lane.fine);
    lane.coarse = lane.coarse ? decoded(lane.coarse) : null;
    lane.isTransfer = lane.kind === "h2d" || lane.kind === "d2h";
  }

  const laneOf = (device, kind) => lanes.findIndex((l) => l.device === device && l.kind === kind);

  const timeline = byName("timeline"); // null where the page has none
  const { margin, height, xaxis, yaxis } = figures.timeline?.layout ?? { xaxis: {}, yaxis: {} };
  const wholeView = xaxis.range;
  const centres = yaxis.tickvals;
  const laneHeight = 0.76;
  const plotWidth = () => (print.matches ? printWidth : timeline.clientWidth) - margin.l - margin.r;
  const viewNs = () => (timeline.layout?.xaxis?.range ?? wholeView).map((t) => t * unitNs);

  const inView = (lane) => {
    const [from, to] = viewNs();
    const seen = (mark) => mark.end >= from && mark.start <= to;
    const fine = lane.fine.filter(seen);
    return lane.coarse && fine.length > maxDrawn ? lane.coarse.filter(seen) : fine;
  };

  // A mark is as high as the share of its time in which a row ran, and never out of sight. All
  // boxes of a lane stand on its base line, so that they are one outline.
  const fill = (data) => {
    const path = Object.fromEntries(data.map((trace) => [trace.meta, trace]));
    for (const trace of data) [trace.x, trace.y] = [[], []];
    const [from, to] = viewNs();
    const pixel = (to - from) / plotWidth();
    const box = (role, mark, low, height) => {
      const start = mark.start / unitNs;
      const end = Math.max(mark.end, mark.start + pixel) / unitNs;
      path[role].x.push(start, start, end, end);
      path[role].y.push(low, low - height, low - height, low);
    };
    lanes.forEach((lane, index) => {
      lane.shown = inView(lane);
      const low = centres[index] + laneHeight / 2;
      for (const mark of lane.shown) {
        const full = mark.busy / (mark.end - mark.start || 1) || 1;
        const height = laneHeight * Math.max(0.15, full);
        const hidden = mark.busy ? mark.hidden / mark.busy : 1;
        if (lane.stalls) box(`stall ${mark.cause}`, mark, low, laneHeight);
        else if (!lane.isTransfer) box(lane.kind === "compute" ? "compute" : "collective", mark, low, height);
        else if (!lane.known) box("unknown", mark, low, height);
        else {
          if (hidden < 1) box("exposed", mark, low, height);
          if (hidden > 0) box("hidden", mark, low, height * hidden);
        }
      }
      for (const trace of data) {
        trace.x.push(null);
        trace.y.push(null);
      }
    });
    fillWaits(path);
  };

  // A wait leads from the end of the copy that was waited for to the start of the kernel.
  const waitEnds = (stallLane, stall) => {
    const [copies, compute] = [laneOf(stallLane.device, stall.way), laneOf(stallLane.device, "compute")];
    if (copies < 0 || compute < 0) return null;
    const [low, high] = [centres[copies] - laneHeight / 2, centres[compute] + laneHeight / 2];
    return { x: [stall.to, stall.end], y: [low, high] };
  };
  const fillWaits = (path) => {
    const mostWaits = 12; // more would hide what they join
    for (const lane of lanes.filter((l) => l.stalls)) {
      const waited = lane.shown.filter((stall) => stall.kernel >= 0);
      const longest = waited.sort((a, b) => b.busy - a.busy).slice(0, mostWaits);
      for (const stall of longest) {
        const ends = waitEnds(lane, stall);
        const line = path[stall.proven ? "wait proven" : "wait inferred"];
        if (!ends) continue;
        line.x.push(...ends.x.map((ns) => ns / unitNs), null);
        line.y.push(...ends.y, null);
      }
    }
  };

  const refill = () => {
    const data = figures.timeline.data.map(({ meta }) => ({ meta }));
    fill(data);
    Plotly.restyle(timeline, { x: data.map((t) => t.x), y: data.map((t) => t.y) });
  };

  // ---- zoom -------------------------------------------------------------------------------
  const zoomTo = (from, to) => {
    const least = 10 / unitNs; // ten nanoseconds: nothing is shorter
    const width = Math.min(Math.max(to - from, least), wholeView[1]);
    const start = Math.min(Math.max(0, from), wholeView[1] - width);
    hide();
    return Plotly.relayout(timeline, { "xaxis.range": [start, start + width] });
  };
  const zoomBy = (factor, shift = 0) => {
    const [from, to] = timeline.layout.xaxis.range;
    const middle = (from + to) / 2 + shift * (to - from);
    const half = ((to - from) / 2) * factor;
    return zoomTo(middle - half, middle + half);
  };
  const zooms = {
    in: () => zoomBy(0.5),
    out: () => zoomBy(2),
    left: () => zoomBy(1, -0.5),
    right: () => zoomBy(1, 0.5),
    all: () => zoomTo(...wholeView),
  };

  // ---- words ------------------------------------------------------------------------------
  const significant = (value) => {
    if (value === 0 || value >= 999.5) return Math.round(value).toLocaleString("en-US");
    const digits = Math.max(0, 2 - Math.floor(Math.log10(value)));
    const text = value.toFixed(Math.min(digits, 20));
    return Number(text) >= 10 ** (3 - digits) && digits > 0 ? value.toFixed(digits - 1) : text;
  };
  const scaled = (value, units) => {
    const [name, factor] = units.find(([, f]) => value < 999.5 * f) ?? units.at(-1);
    return `${factor === 1 ? value.toLocaleString("en-US") : significant(value / factor)} ${name}`;
  };
  const duration = (ns) => scaled(ns, [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]]);
  const size = (bytes) =>
    scaled(bytes, [["B", 1], ["kB", 1e3], ["MB", 1e6], ["GB", 1e9], ["TB", 1e12]]);
  const share = (part) => {
    if (part === 0 || part === 1) return `${100 * part} %`;
    const text = (100 * part).toFixed(1);
    return `${{ "0.0": "<0.1", "100.0": ">99.9" }[text] ?? text} %`;
  };
  const bandwidth = (gbps) => `${gbps < 0.001 ? "<0.001" : significant(gbps)} GB/s`;

  const at = (lane, ns) => `${lane.title}, from ${(ns / unitNs).toPrecision(7)} ${unit}`;
  const waiting = (stall) => {
    const who = stall.kernel < 0 ? "The end of the step" : names[stall.kernel];
    return `${who} waits, ${stall.proven ? "proven by an event" : "inferred from the times"}`;
  };
  const describedStall = (lane, stall) => {
    const copies = `${stall.transfers} ${stall.transfers > 1 ? "copies" : "copy"}`;
    const op = stall.op < 0 ? "" : `, ${names[stall.op]}`;
    const lines = [`${duration(stall.busy)} lost`, `${stall.way.toUpperCase()}${op}, ${copies}`];
    return {
      title: causes[stall.cause],
      lines: [...lines, waiting(stall), at(lane, stall.start)],
    };
  };
  // The stall whose copy a mark is, if any.
  const stallAfter = (lane, mark) =>
    lanes[laneOf(lane.device, "stalls")]?.fine.find(
      (stall) => stall.way === lane.kind && stall.from === mark.start && stall.to === mark.end,
    );

  const described = (lane, mark) => {
    if (lane.stalls) return describedStall(lane, mark);
    const several = mark.rows > 1 ? `${mark.rows.toLocaleString("en-US")} rows merged` : "";
    const one = names[mark.name] ?? (lane.isTransfer ? `${lane.kind.toUpperCase()} copy` : "Kernel");
    const title = several && mark.name >= 0 ? `${names[mark.name]} (${several})` : several || one;
    const lines = [`${duration(mark.busy)}${several ? " busy" : ""}`];
    if (lane.isTransfer) {
      const moved = mark.bytes ? size(mark.bytes) : "size not known";
      const rate = mark.bytes && mark.busy ? `, ${bandwidth(mark.bytes / mark.busy)}` : "";
      lines.push(moved + rate);
      if (!lane.known) lines.push("cannot tell what is hidden");
      else if (mark.busy) lines.push(`${share(mark.hidden / mark.busy)} hidden behind compute`);
      const stall = stallAfter(lane, mark);
      if (stall) lines.push(`${waiting(stall)}: ${causes[stall.cause]}, ${duration(stall.busy)} lost`);
    }
    lines.push(at(lane, mark.start));
    return { title, lines };
  };

  // ---- the mark under the pointer or the keyboard -----------------------------------------
  const label = document.getElementById("mark-label");
  const frame = document.getElementById("mark-frame");
  const waitLine = document.getElementById("wait-line");
  const current = { lane: 0, mark: null };

  const pixelOf = (ns) => {
    const [from, to] = viewNs();
    return margin.l + ((ns - from) / (to - from)) * plotWidth();
  };
  const unitPx = () => (height - margin.t - margin.b) / yaxis.range[0];

  const hide = () => {
    label.hidden = frame.hidden = waitLine.hidden = true;
  };
  const showWait = (lane, stall) => {
    const ends = stall && stall.kernel >= 0 && waitEnds(lane, stall);
    waitLine.hidden = !ends || ends.x.some((ns) => ns < viewNs()[0] || ns > viewNs()[1]);
    if (waitLine.hidden) return;
    const [x0, x1] = ends.x.map((ns) => timeline.offsetLeft + pixelOf(ns));
    const [y0, y1] = ends.y.map((y) => timeline.offsetTop + margin.t + y * unitPx());
    Object.assign(waitLine.style, {
      left: `${x0}px`,
      top: `${y0}px`,
      width: `${Math.hypot(x1 - x0, y1 - y0)}px`,
      borderTopStyle: stall.proven ? "solid" : "dashed",
      transform: `rotate(${Math.atan2(y1 - y0, x1 - x0)}rad)`,
    });
  };
  const show = (laneIndex, mark) => {
    Object.assign(current, { lane: laneIndex, mark });
    const { title, lines } = described(lanes[laneIndex], mark);
    const heading = document.createElement("strong");
    heading.textContent = title;
    label.replaceChildren(
      heading,
      ...lines.map((line) => Object.assign(document.createElement("span"), { textContent: line })),
    );
    const edges = [margin.l, margin.l + plotWidth()];
    const clamp = (x) => Math.min(Math.max(x, edges[0]), edges[1]);
    const [left, right] = [mark.start, mark.end].map((t) => timeline.offsetLeft + clamp(pixelOf(t)));
    const top =
      timeline.offsetTop + margin.t + (centres[laneIndex] - laneHeight / 2) * unitPx();
    Object.assign(frame.style, {
      left: `${left - 2}px`,
      top: `${top - 2}px`,
      width: `${right - left + 4}px`,
      height: `${laneHeight * unitPx() + 4}px`,
    });
    label.hidden = frame.hidden = false;
    const lane = lanes[laneIndex];
    const stall = lane.stalls ? mark : lane.isTransfer && stallAfter(lane, mark);
    showWait(lanes[laneOf(lane.device, "stalls")], stall);
    const room = label.offsetParent.clientWidth - label.offsetWidth;
    label.style.left = `${Math.max(0, Math.min((left + right) / 2 + 12, room))}px`;
    label.style.top = `${top + laneHeight * unitPx() + 8}px`;
  };

  const markAt = (event) => {
    const { left, top } = timeline.getBoundingClientRect();
    const [from, to] = viewNs();
    const nsPerPx = (to - from) / plotWidth();
    const time = from + (event.clientX - left - margin.l) * nsPerPx;
    const height = (event.clientY - top - margin.t) / unitPx();
    const lane = centres.findIndex((centre) => Math.abs(centre - height) <= 0.5);
    if (lane < 0 || event.clientX - left < margin.l) return null;
    let best = null;
    let least = [4 * nsPerPx, Infinity]; // a thin mark may be missed by so much
    for (const mark of lanes[lane].shown) {
      const away = Math.max(mark.start - time, time - mark.end, 0);
      const length = mark.end - mark.start;
      if (away < least[0] || (away === least[0] && length < least[1])) {
        [best, least] = [mark, [away, length]];
      }
    }
    return best && { lane, mark: best };
  };

  const step = (direction) => {
    const { shown } = lanes[current.lane];
    const at = shown.indexOf(current.mark);
    const next = shown[at < 0 ? (direction > 0 ? 0 : shown.length - 1) : at + direction];
    if (next) show(current.lane, next);
  };
  const changeLane = (direction) => {
    const middle = current.mark ? current.mark.start : viewNs()[0];
    for (let at = current.lane + direction; lanes[at]; at += direction) {
      const distance = (mark) => Math.abs(mark.start - middle);
      const nearest = lanes[at].shown.reduce(
        (best, mark) => (best && distance(best) <= distance(mark) ? best : mark),
        null,
      );
      if (nearest) return show(at, nearest);
    }
    return undefined;
  };
  const keys = {
    ArrowRight: () => step(1),
    ArrowLeft: () => step(-1),
    ArrowDown: () => changeLane(1),
    ArrowUp: () => changeLane(-1),
    "+": zooms.in,
    "=": zooms.in,
    "-": zooms.out,
    0: zooms.all,
    Escape: hide,
  };

  const listenToTimeline = () => {
    timeline.on("plotly_relayout", (change) => {
      if (Object.keys(change).some((key) => key.startsWith("xaxis"))) {
        hide();
        refill();
      }
    });
    let resting = ""; // where the pointer was while the page scrolled under it
    const place = ({ clientX, clientY }) => `${clientX} ${clientY}`;
    timeline.addEventListener("mousemove", (event) => {
      if (place(event) === resting) return;
      const hit = event.buttons ? null : markAt(event);
      if (hit) show(hit.lane, hit.mark);
      else hide();
    });
    timeline.addEventListener("mouseleave", hide);
    timeline.addEventListener("click", (event) => {
      const hit = markAt(event); // for fingers, which don't hover
      if (hit) show(hit.lane, hit.mark);
    });
    timeline.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    timeline.addEventListener("blur", hide);
    for (const button of document.querySelectorAll("[data-zoom]")) {
      button.addEventListener("click", () => zooms[button.dataset.zoom]());
    }
    for (const button of document.querySelectorAll("[data-start-ns]")) {
      button.addEventListener("click", async (event) => {
        const [start, end] = [Number(button.dataset.startNs), Number(button.dataset.endNs)];
        const around = Math.max(5 * (end - start), 1000);
        resting = place(event);
        await zoomTo((start - around) / unitNs, (end + around) / unitNs);
        timeline.scrollIntoView({ block: "center" });
        timeline.focus({ preventScroll: true });
        const lane = lanes.findIndex((l) => l.title === button.dataset.lane);
        const shown = lanes[lane]?.shown ?? [];
        const mark =
          shown.find((m) => m.start === start && m.end === end) ??
          shown.find((m) => m.end > start && m.start < end);
        if (mark) show(lane, mark);
      });
    }
  };

  // ---- kernels by name, print -------------------------------------------------------------
  const search = document.getElementById("kernel-search");
  search?.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    for (const row of document.querySelectorAll("#kernels tbody tr")) {
      row.hidden = !row.firstElementChild.textContent.toLowerCase().includes(wanted);
    }
    const rest = document.querySelector("#kernels details");
    if (rest && wanted) rest.open = true;
  });

  // ---- layers of an operation -------------------------------------------------------------
  for (const button of document.querySelectorAll("[data-layers]")) {
    const layers = document.querySelector(`[data-of="${button.dataset.layers}"]`);
    const fold = (open) => {
      layers.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
    };
    fold(false); // here and not in the page, so that all is read without scripts
    button.addEventListener("click", () => fold(layers.hidden));
  }

  print.addEventListener("change", () => {
    for (const details of document.querySelectorAll("details")) {
      if (print.matches) details.dataset.wasOpen = String(details.open);
      details.open = print.matches || details.dataset.wasOpen === "true";
    }
    if (timeline) hide();
    drawAll();
  });
  dark.addEventListener("change", () => print.matches || drawAll());

  // ---- figures that are folded away have no width to be drawn at --------------------------
  const unfolded = ({ target }) => {
    if (!target.open) return;
    for (const plot of target.querySelectorAll("[data-figure]")) {
      if (isShown(plot.dataset.figure)) draw(plot.dataset.figure);
    }
  };
  document.addEventListener("toggle", unfolded, true);

  if (timeline) {
    draw("timeline"); // first, since it's what is seen first
    listenToTimeline();
  }
  setTimeout(() => {
    Object.keys(figures).filter((name) => name !== "timeline" && isShown(name)).forEach(draw);
    document.documentElement.dataset.drawn = "true";
  });
})();
