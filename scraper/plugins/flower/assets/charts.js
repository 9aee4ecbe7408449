/* Charts by uPlot (uPlot.LICENSE), as this tab wants them: bars in a stack or an area over time, and a value that
   stays until it is another one. Each has a legend, a readout, and its numbers as a table, for whoever cannot see or point.
   Colours are classes (crawls.css), read again when the theme changes. Sparklines are SVG: fifty of them are drawn at once. */
(function () {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = 220;
  const DAY_S = 86400;
  const TIME_STEPS = [10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, DAY_S, 2 * DAY_S, 5 * DAY_S, 10 * DAY_S, 30 * DAY_S, 90 * DAY_S, 365 * DAY_S];
  const WHOLE_STEPS = [1, 2, 5].flatMap((one) => [...Array(12).keys()].map((i) => one * 10 ** i)).sort((a, b) => a - b);
  const boxes = new Set();

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function svg(name, attributes, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function number(value) {
    if (value >= 1000) return value.toLocaleString("en", {maximumFractionDigits: 0});
    return value.toLocaleString("en", {maximumFractionDigits: value < 10 ? 2 : 1});
  }

  function span(seconds) {
    if (seconds < 60) return `${seconds} s`;
    if (seconds < 3600) return `${seconds / 60} min`;
    return seconds < DAY_S ? `${seconds / 3600} h` : `${seconds / DAY_S} d`;
  }

  function clock(date, seconds) {
    return date.toLocaleTimeString([], {hourCycle: "h23", hour: "2-digit", minute: "2-digit", ...(seconds ? {second: "2-digit"} : {})});
  }

  function day(date, year) {
    return date.toLocaleDateString([], {month: "short", day: "numeric", ...(year ? {year: "numeric"} : {})});
  }

  function moment(at, step_s) {
    const date = new Date(at * 1000);
    if (!step_s) return `${day(date, true)} ${clock(date)}`;
    return step_s < DAY_S ? clock(date, true) : day(date);
  }

  /* A time on an axis; midnight is its day. */
  function label(date, step) {
    if (step >= DAY_S) return day(date, step >= 90 * DAY_S);
    return date.getHours() || date.getMinutes() || date.getSeconds() ? clock(date, step < 60) : day(date);
  }

  /* The range of values: from zero, or (`near`) about them, so that a change of a few percent is seen. */
  function reach(low, high, near) {
    if (near && low !== null) {
      const pad = Math.max((high - low) * 0.2, high * 0.05);
      return [Math.max(0, low - pad), high + pad || 1];
    }
    return uPlot.rangeNum(0, Math.max(high, 0) || 1, {min: {pad: 0, soft: 0, mode: 1}, max: {pad: 0.05}});
  }

  /* What a class of crawls.css stands for now, as a canvas takes it. */
  function colour(box, name, property) {
    const probe = element("span", {class: `chart-key ${name}`, hidden: ""});
    box.append(probe);
    const value = getComputedStyle(probe)[property];
    probe.remove();
    return value;
  }

  function axes(box, height, whole) {
    const stroke = colour(box, "chart-ink", "color"), line = colour(box, "chart-ink", "borderTopColor");
    const font = "11px system-ui, sans-serif", grid = {stroke: line, width: 1, dash: [2, 3]}, ticks = {stroke: line, width: 1, size: 4};
    return [
      {stroke, font, grid: {show: false}, ticks, size: 28, space: (_plot, _axis, _low, _high, width) => width < 300 ? 55 : 80, incrs: TIME_STEPS,
       values: (_, splits, _axis, _space, step) => splits.map((at) => label(new Date(at * 1000), step))},
      {stroke, font, grid, ticks: {show: false}, size: 48, space: height < 180 ? 26 : 36, ...(whole ? {incrs: WHOLE_STEPS} : {}), values: (_, splits) => splits.map(number)},
    ];
  }

  /* The data and series of uPlot for each kind. Bars in a stack are sums, the largest drawn first. */
  function layout(box, {points, step_s, series, kind}) {
    const at = points.map((point) => Date.parse(point.at) / 1000);
    const tone = (one) => colour(box, one.tone, "backgroundColor");
    if (kind === "bars") {
      const sums = series.map((_, i) => points.map((point) => point.values.slice(0, i + 1).reduce((sum, value) => sum + value, 0)));
      const paths = uPlot.paths.bars({size: [0.9, 60], align: 1});
      return {data: [at, ...sums.reverse()], end: at[at.length - 1] + step_s,
              drawn: [...series].reverse().map((one) => ({fill: tone(one), stroke: tone(one), width: 0, paths, points: {show: false}}))};
    }
    if (kind === "steps") {
      const end = Math.max(Date.now() / 1000, at[at.length - 1] + 1), paths = uPlot.paths.stepped({align: 1});
      return {data: [[...at, end], ...series.map((_, i) => [...points, points[points.length - 1]].map((point) => point.values[i]))], end,
              drawn: series.map((one) => ({stroke: tone(one), width: 1.75, paths, points: {show: false}}))};
    }
    const stroke = tone(series[0]), value = (point) => point.values[0];
    return {data: [at.map((one) => one + step_s / 2), points.map(value)], end: at[at.length - 1] + step_s,
            drawn: [{stroke, width: 1.75, fill: colour(box, `${series[0].tone} chart-faint`, "color"), spanGaps: true,
                     points: {show: points.filter((point) => value(point) !== null).length < 3}}]};
  }

  function draw(box) {
    const options = box.chartOptions, figure = box.querySelector(".chart-figure");
    const {points, step_s, series, unit, kind, label, height = HEIGHT} = options;
    const width = Math.floor(figure.clientWidth);
    if (!points.length || width < 60) return;
    const readout = box.querySelector(".chart-readout"), quiet = step_s ? `${unit}, in steps of ${span(step_s)}` : unit;
    const {data, drawn, end} = layout(box, options);
    const start = Date.parse(points[0].at) / 1000;
    const told = (plot) => {
      const index = plot.cursor.idx, point = points[Math.min(index ?? -1, points.length - 1)];
      if (!point) { readout.textContent = quiet; return; }
      readout.textContent = `${moment(Date.parse(point.at) / 1000, step_s)}: ${told_of(point, series)}`;
    };
    box.chart?.destroy();
    box.chart = new uPlot({
      width, height, legend: {show: false}, axes: axes(box, height, options.whole || kind === "bars" && options.whole === undefined), series: [{}, ...drawn],
      scales: {x: {time: true, range: [start, end]}, y: {range: (_, low, high) => reach(low, high, options.near)}},
      cursor: {y: false, drag: {x: false, y: false}, points: {show: false}, dataIdx: kind === "area" ? undefined : before},
      hooks: {setCursor: [told]},
    }, data, figure);
    figure.setAttribute("role", "img");
    figure.setAttribute("aria-label", label);
    told(box.chart);
  }

  /* Bars and steps begin at their time: what is pointed at is the one that has begun last. */
  function before(plot, _series, closest, value) {
    return plot.data[0][closest] > value && closest > 0 ? closest - 1 : closest;
  }

  function told_of(point, series) {
    const parts = series.map((one, i) => [one.name, point.values[i]]).filter(([, value]) => typeof value === "number" && (value > 0 || series.length === 1));
    return parts.map(([name, value]) => series.length > 1 ? `${name} ${number(value)}` : number(value)).join(", ") || "nothing";
  }

  /* points: [{at, values: [one a series]}], series: [{name, tone}], unit: text; kind: "area", "bars" or "steps";
     whole: no values between whole numbers (unless told so, bars have none); near: the axis need not begin at zero.
     Draws into an element, and again whenever its width or the theme changes. `table` false: the page has one. */
  function chart(box, options) {
    box.chartOptions = options;
    if (!box.chart && !box.querySelector(".chart-figure")) {
      const figure = element("div", {class: "chart-figure"});
      figure.style.minHeight = `${options.height || HEIGHT}px`;
      box.append(element("div", {class: "chart-legend"}), figure, element("p", {class: "chart-readout"}));
      if (options.table !== false) box.append(tabled(box));
      boxes.add(box);
      new ResizeObserver(() => { if (box.isConnected && box.chart?.width !== Math.floor(figure.clientWidth)) draw(box); }).observe(figure);
    }
    const entries = options.series.length > 1 ? options.series : [];
    box.querySelector(".chart-legend").replaceChildren(...entries.map((one) => element("span", {}, element("span", {class: `chart-key ${one.tone}`}), one.name)));
    draw(box);
    const open = box.querySelector("details[open]");
    if (open) fill(box, open);
  }

  function tabled(box) {
    const made = element("details", {class: "chart-table"}, element("summary", {}, "As a table"));
    made.addEventListener("toggle", () => { if (made.open) fill(box, made); });
    return made;
  }

  /* The region stays, and with it the focus and what is scrolled to. */
  function fill(box, details) {
    const {points, series, step_s, label} = box.chartOptions;
    const head = (text, kind) => element("th", {scope: "col", class: kind}, text);
    const rows = points.filter((point) => point.values.some((value) => value)).reverse();
    let region = details.querySelector(".table-responsive");
    if (!region) details.append(region = element("div", {class: "table-responsive", tabindex: "0", role: "region", "aria-label": label}));
    region.replaceChildren(element("table", {class: "table crawl-table"},
      element("thead", {}, element("tr", {}, head("When", ""), ...series.map((one) => head(one.name, "num")))),
      element("tbody", {}, ...rows.map((point) => element("tr", {}, element("td", {}, moment(Date.parse(point.at) / 1000, step_s)),
        ...point.values.map((value) => element("td", {class: "num"}, typeof value === "number" ? number(value) : "–")))))));
  }

  new MutationObserver(() => {
    for (const box of boxes) box.isConnected ? draw(box) : boxes.delete(box);
  }).observe(document.documentElement, {attributes: true, attributeFilter: ["data-bs-theme"]});

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

  window.crawlCharts = {chart, spark, number, span};
}());
