/* Small charts in SVG: stacked bars or an area over time, with axes, a legend and a readout, and sparklines.
   Our own, since a library would be larger than the page and would want inline styles, which the page's policy forbids.
   Colours are classes (crawls.css), so that light and dark need no redrawing. */
(function () {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = 220;
  const MARGIN = {top: 10, right: 10, bottom: 24, left: 46};
  const TIME_STEPS = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

  function svg(name, attributes, ...children) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
    for (const child of children) element.append(child);
    return element;
  }

  /* The largest value of an axis and its steps: 1, 2 or 5 times a power of ten, four or so of them. */
  function scale(largest) {
    if (!(largest > 0)) return {top: 1, step: 1};
    const power = 10 ** Math.floor(Math.log10(largest / 4));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => largest / n <= 5);
    return {top: Math.ceil(largest / step) * step, step};
  }

  function number(value) {
    if (value >= 1000) return value.toLocaleString("en", {maximumFractionDigits: 0});
    return value.toLocaleString("en", {maximumFractionDigits: value < 10 ? 2 : 1});
  }

  function clock(date, seconds) {
    return date.toLocaleTimeString([], {hourCycle: "h23", hour: "2-digit", minute: "2-digit", ...(seconds ? {second: "2-digit"} : {})});
  }

  function timeTicks(start, end, room) {
    const step = TIME_STEPS.find((s) => (end - start) / 1000 / s <= room) || TIME_STEPS[TIME_STEPS.length - 1];
    const offset = new Date(start).getTimezoneOffset() * 60000;
    const ticks = [];
    let at = Math.ceil((start - offset) / (step * 1000)) * step * 1000 + offset;
    for (; at <= end; at += step * 1000) ticks.push(at);
    return {ticks, step};
  }

  /* points: [{at, values: [one a series]}], series: [{name, tone}], unit: text; kind: "area" or "bars". */
  function draw(box, width, {points, step_s, series, unit, kind, label, height = HEIGHT}) {
    const start = Date.parse(points[0].at), stepMs = step_s * 1000;
    const end = Date.parse(points[points.length - 1].at) + stepMs;
    const sums = points.map((point) => point.values.reduce((sum, value) => sum + value, 0));
    const {top, step} = scale(Math.max(...sums));
    const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
    const x = (at) => MARGIN.left + (at - start) / (end - start) * (right - MARGIN.left);
    const y = (value) => bottom - value / top * (bottom - MARGIN.top);
    const root = svg("svg", {class: "chart", width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
                             "aria-label": label});

    for (let value = 0; value <= top * 1.001; value += step) {
      root.append(svg("line", {class: "chart-grid", x1: MARGIN.left, x2: right, y1: y(value), y2: y(value)}),
                  svg("text", {class: "chart-label", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end"},
                      number(value)));
    }
    const {ticks, step: tickStep} = timeTicks(start, end, Math.max(2, Math.floor(width / 90)));
    for (const at of ticks) {
      const date = new Date(at);
      const text = tickStep >= 86400 ? date.toLocaleDateString([], {month: "short", day: "numeric"}) : clock(date, tickStep < 60);
      const place = x(at);
      root.append(svg("line", {class: "chart-tick", x1: place, x2: place, y1: bottom, y2: bottom + 4}));
      if (place > MARGIN.left + 12 && place < right - 22) {
        root.append(svg("text", {class: "chart-label", x: place, y: bottom + 17, "text-anchor": "middle"}, text));
      }
    }

    if (kind === "area") {
      const line = points.map((point, i) => `${i ? "L" : "M"}${x(Date.parse(point.at) + stepMs / 2).toFixed(1)},${y(sums[i]).toFixed(1)}`).join("");
      const first = x(start + stepMs / 2), last = x(end - stepMs / 2);
      root.append(svg("path", {class: `chart-area ${series[0].tone}`, d: `${line}L${last},${bottom}L${first},${bottom}Z`}),
                  svg("path", {class: `chart-line ${series[0].tone}`, d: line}));
      if (points.length < 3) {
        points.forEach((point, i) => root.append(
          svg("circle", {class: `chart-dot ${series[0].tone}`, cx: x(Date.parse(point.at) + stepMs / 2), cy: y(sums[i]), r: 3})));
      }
    } else {
      const barWidth = Math.max(1, (right - MARGIN.left) / points.length - 1);
      for (const point of points) {
        let below = 0;
        point.values.forEach((value, i) => {
          if (!value) return;
          root.append(svg("rect", {class: `chart-bar ${series[i].tone}`, x: (x(Date.parse(point.at)) + 0.5).toFixed(2),
                                   width: barWidth.toFixed(2), y: y(below + value).toFixed(2),
                                   height: Math.max(0.5, y(below) - y(below + value)).toFixed(2)}));
          below += value;
        });
      }
    }
    root.append(svg("line", {class: "chart-axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom}));

    const cursor = svg("line", {class: "chart-cursor d-none", y1: MARGIN.top, y2: bottom});
    root.append(cursor);
    const readout = box.querySelector(".chart-readout");
    const quiet = `${unit}, in steps of ${span(step_s)}`;
    readout.textContent = quiet;
    root.addEventListener("pointermove", (event) => {
      const place = event.clientX - root.getBoundingClientRect().left;
      const i = Math.floor((place - MARGIN.left) / (right - MARGIN.left) * points.length);
      if (i < 0 || i >= points.length) return;
      const at = Date.parse(points[i].at);
      cursor.classList.remove("d-none");
      cursor.setAttribute("x1", x(at + stepMs / 2));
      cursor.setAttribute("x2", x(at + stepMs / 2));
      const parts = series.map((one, j) => [one.name, points[i].values[j]]).filter(([, value]) => value > 0);
      const told = parts.map(([name, value]) => series.length > 1 ? `${name} ${number(value)}` : number(value)).join(", ");
      const shown = step_s < 86400 ? clock(new Date(at), true) : new Date(at).toLocaleDateString([], {month: "short", day: "numeric"});
      readout.textContent = `${shown}: ${told || "nothing"}`;
    });
    root.addEventListener("pointerleave", () => {
      cursor.classList.add("d-none");
      readout.textContent = quiet;
    });
    return root;
  }

  function span(seconds) {
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${seconds / 60} min`;
    return seconds < 86400 ? `${seconds / 3600} h` : `${seconds / 86400} d`;
  }

  /* Draws into an element, and again whenever its width changes. */
  function chart(box, options) {
    box.chartOptions = options;
    if (!box.chartReady) {
      box.chartReady = true;
      const legend = document.createElement("div"), figure = document.createElement("div"), readout = document.createElement("p");
      legend.className = "chart-legend";
      figure.className = "chart-figure";
      readout.className = "chart-readout";
      box.append(legend, figure, readout);
      new ResizeObserver(() => redraw(box)).observe(figure);
    }
    redraw(box);
  }

  function redraw(box) {
    const options = box.chartOptions, figure = box.querySelector(".chart-figure");
    const width = Math.floor(figure.clientWidth);
    if (!options.points.length || width < 60) return;
    figure.replaceChildren(draw(box, width, options));
    const entries = options.series.length > 1 ? options.series : [];
    box.querySelector(".chart-legend").replaceChildren(...entries.map((one) => {
      const item = document.createElement("span"), key = document.createElement("span");
      key.className = `chart-key ${one.tone}`;
      item.append(key, one.name);
      return item;
    }));
  }

  function spark(values, label) {
    const width = 120, height = 28, most = Math.max(...values, 0.001);
    const x = (i) => values.length > 1 ? i / (values.length - 1) * (width - 2) + 1 : width / 2;
    const line = values.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)},${(height - 2 - value / most * (height - 4)).toFixed(1)}`).join("");
    const root = svg("svg", {class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label},
                     svg("title", {}, label));
    if (values.length === 1) root.append(svg("circle", {class: "chart-dot tone-rate", cx: width / 2, cy: height / 2, r: 2.5}));
    else if (values.length) {
      root.append(svg("path", {class: "chart-area tone-rate", d: `${line}L${x(values.length - 1)},${height}L${x(0)},${height}Z`}),
                  svg("path", {class: "chart-line tone-rate", d: line}));
    }
    return root;
  }

  /* A value that stays until it is another one: [{at, value}], of which a value may be null. */
  function steps(points, label) {
    const width = 640, height = 200, right = width - MARGIN.right, bottom = height - MARGIN.bottom;
    const priced = points.filter((point) => typeof point.value === "number");
    const start = Date.parse(points[0]?.at), end = Math.max(Date.now(), start + 1);
    const {top, step} = scale(Math.max(0, ...priced.map((point) => point.value)));
    const x = (at) => MARGIN.left + (at - start) / (end - start) * (right - MARGIN.left);
    const y = (value) => bottom - value / top * (bottom - MARGIN.top);
    const root = svg("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
    for (let value = 0; value <= top * 1.001; value += step) {
      root.append(svg("line", {class: "chart-grid", x1: MARGIN.left, x2: right, y1: y(value), y2: y(value)}),
                  svg("text", {class: "chart-label", x: MARGIN.left - 6, y: y(value) + 4, "text-anchor": "end"}, number(value)));
    }
    for (const [at, anchor] of [[start, "start"], [end, "end"]]) {
      root.append(svg("text", {class: "chart-label", x: x(at), y: bottom + 17, "text-anchor": anchor}, new Date(at).toLocaleDateString()));
    }
    points.forEach((point, i) => {
      if (typeof point.value !== "number") return;
      const from = x(Date.parse(point.at)), to = i + 1 < points.length ? x(Date.parse(points[i + 1].at)) : right;
      const next = points[i + 1]?.value;
      root.append(svg("path", {class: "chart-line tone-rate", d: `M${from.toFixed(1)},${y(point.value).toFixed(1)}H${to.toFixed(1)}${typeof next === "number" ? `V${y(next).toFixed(1)}` : ""}`}));
    });
    return root;
  }

  window.crawlCharts = {chart, spark, steps, number, span};
}());
