// Charts over an axis, by uPlot: a caption, a legend of toggles, a line that reads out the values under the cursor (mouse, touch
// or arrow keys), and the data as a table.

const CHART_HEIGHT = 240;
const PRINT_WIDTH = 640;
const SHOWN_AT_FIRST = 8;
const TABLE_ROWS = 60;

/** Where values stand alone, between gaps: a line shows nothing of them. */
function alone(ys) {
  const isGap = (at) => ys[at] === null || ys[at] === undefined;
  return [...ys.keys()].filter((at) => !isGap(at) && isGap(at - 1) && isGap(at + 1));
}

class Chart {
  /**
   * `series`: { label, xs: { axis: numbers }, ys: numbers or nulls }, with `low` and `high` if a band is drawn around the line.
   * `axes`: { axis: its title }. `form`: lines, stacked, bars or points. `names`: labels of the bars where the axis has no numbers.
   */
  constructor(place, { title, note = "", unit, axes, series, form = "lines", log = false, wide = false, names = null }) {
    Object.assign(this, { title, unit, axes, form, names, isLog: log });
    this.axis = Object.keys(axes)[0];
    this.series = series.map((one, number) => ({ ...one, ...styleOf(number), isOn: number < SHOWN_AT_FIRST }));
    this.legend = make("div", { class: "bar legend", role: "group", "aria-label": `Series of ${title}` });
    this.plotted = make("div", { class: "plot", tabindex: "0", role: "img" });
    this.readout = make("p", { class: "readout", role: "status" });
    this.data = make("div", { class: "scroll" });
    this.table = make("details", {}, make("summary", {}, "Data as a table"), this.data);
    this.table.addEventListener("toggle", () => this.table.open && this.fillTable());
    this.tools = make("div", { class: "bar" });
    if (log) this.tools.append(toggle("logarithmic", true, (isOn) => { this.isLog = isOn; this.draw(); }));
    this.figure = make("figure", { class: wide ? "wide" : "" },
      make("figcaption", {}, make("h3", {}, title), make("p", {}, note || unit)),
      this.legend, this.tools, this.plotted, this.readout, this.table);
    place.append(this.figure);
    this.fillLegend();
    this.plotted.addEventListener("keydown", (event) => this.move(event));
    this.draw();
    drawn.push(this);
    new ResizeObserver(() => this.fit()).observe(this.plotted);
  }

  /** Other series in the same chart, as after a slider moved. Where only the values are others, legend and cursor stay. */
  show(series) {
    if (series.length === this.series.length && series.every((one, number) => one.label === this.series[number].label)) {
      series.forEach((one, number) => Object.assign(this.series[number], one));
      this.refresh();
      return;
    }
    const on = this.series.map((one) => one.isOn);
    this.series = series.map((one, number) => ({ ...one, ...styleOf(number), isOn: on[number] ?? number < SHOWN_AT_FIRST }));
    this.fillLegend();
    this.draw();
  }

  setAxis(axis) {
    if (!(axis in this.axes)) return;
    this.axis = axis;
    this.draw();
  }

  fillLegend() {
    this.legend.hidden = this.series.length < 2;
    this.legend.replaceChildren(...this.series.map((one) => {
      const key = make("span", { class: "key", "aria-hidden": "true" });
      key.style.background = `var(--${one.colour})`;
      const entry = toggle("", one.isOn, (isOn) => { one.isOn = isOn; this.draw(); });
      entry.append(key, one.label);
      return entry;
    }));
  }

  /** Common x values, and for each series that is on its values there, and the edges of its band or null. */
  aligned() {
    const on = this.series.filter((one) => one.isOn);
    if (on.length === 0) return { on, rows: [[]], edges: [] };
    const [xs, ...columns] = uPlot.join(on.map((one) => [one.xs[this.axis], one.ys, ...(one.low ? [one.low, one.high] : [])]));
    const [rows, edges] = [[xs], []];
    for (const one of on) {
      rows.push(columns.shift());
      edges.push(one.low ? [columns.shift(), columns.shift()] : null);
    }
    return { on, rows, edges };
  }

  /** Each series on top of those before it, the highest first: what lies below covers what is higher. */
  stack({ on, rows, edges }) {
    const sums = rows[0].map(() => 0);
    const stacked = rows.slice(1).map((ys) => ys.map((y, k) => (y === null || y === undefined ? null : (sums[k] += y))));
    return { on: [...on].reverse(), rows: [rows[0], ...stacked.reverse()], edges };
  }

  /** Takes the values of the series that are on, and gives them as they are drawn. */
  arrange() {
    this.values = this.aligned();
    return this.form === "stacked" ? this.stack(this.values) : this.values;
  }

  /** Draws other values of the same series. */
  refresh() {
    this.plot.setData(this.arrange().rows);
    this.plotted.setAttribute("aria-label", this.describe());
    this.read(this.plot.cursor.idx);
    if (this.table.open) this.fillTable();
  }

  draw() {
    const { on, rows, edges } = this.arrange();
    this.plot?.destroy();
    this.plot = new uPlot(this.options(on, edges), [...rows, ...edges.filter((edge) => edge !== null).flat()], this.plotted);
    this.plotted.setAttribute("aria-label", this.describe());
    this.read(null);
  }

  width() {
    return matchMedia("print").matches ? PRINT_WIDTH : Math.max(this.plotted.clientWidth, 120);
  }

  /** Slanted names leave the plot its height. */
  height() {
    return CHART_HEIGHT + this.nameSize().size - 30;
  }

  fit() {
    const width = this.width();
    if (width !== this.plot.width) this.plot.setSize({ width, height: this.height() });
  }

  /** Options of the edges of bands, which are drawn as areas only: their series, and which two of them are a band. */
  bands(on, edges) {
    const [series, bands] = [[], []];
    edges.forEach((edge, number) => {
      if (edge === null) return;
      const first = on.length + 1 + series.length;
      series.push(...edge.map(() => ({ width: 0, points: { show: false } })));
      bands.push({ series: [first + 1, first], fill: faded(colour(on[number].colour)) });
    });
    return { series, bands };
  }

  options(on, edges) {
    const [ink, rule] = [colour("faint"), colour("rule")];
    const axis = { stroke: ink, grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1 }, font: "12px system-ui, sans-serif" };
    const label = { labelFont: "12px system-ui, sans-serif", labelSize: 16, labelGap: 0 };
    const ofName = (u, splits) => splits.map((x) => this.names[x] ?? "");
    const { series, bands } = this.bands(on, edges);
    return {
      width: this.width(), height: this.height(), padding: [10, this.nameSize().rotate ? 90 : 12, 0, 0],
      legend: { show: false },
      cursor: { points: { show: this.form !== "bars" }, drag: { x: false, y: false } },
      scales: { x: this.xScale(), y: this.yScale() },
      axes: [
        { ...axis, ...label, label: this.axes[this.axis], space: 60, ...(this.names ? { values: ofName, incrs: [1, 2, 5, 10, 20, 50, 100], space: 14 }
          : { values: (u, splits) => splits.map(short) }), ...this.nameSize() },
        { ...axis, ...label, label: this.unit, size: 52, values: (u, splits) => splits.map(short) },
      ],
      series: [{}, ...on.map((one) => this.line(one)), ...series], bands,
      hooks: { setCursor: [(u) => this.read(u.cursor.idx)] },
    };
  }

  /** Long names stand slanted, and need room. */
  nameSize() {
    const longest = Math.max(0, ...(this.names ?? []).map((name) => name.length));
    const isSlanted = longest * 7 > this.width() / Math.max(1, this.names?.length ?? 1);
    return isSlanted ? { rotate: -40, size: Math.min(140, 30 + longest * 4) } : { size: 30 };
  }

  xScale() {
    const edge = this.form === "bars" || this.names ? (u, low, high) => this.barEdges(low, high) : undefined;
    return { time: false, range: edge };
  }

  /** Half a bar beside the first and the last one. */
  barEdges(low, high) {
    const xs = this.values.rows[0];
    const step = xs.length > 1 ? xs[1] - xs[0] : 1;
    return [(low ?? 0) - step * 0.6, (high ?? 0) + step * 0.6];
  }

  yScale() {
    if (this.isLog) return { distr: 3, range: (u, low, high) => uPlot.rangeLog(low ?? 1, high ?? 10, 10, false) };
    const range = (u, low, high) => {
      const [bottom, top] = [Math.min(0, low ?? 0), Math.max(0, high ?? 1)];
      const room = (top - bottom || 1) * 0.05;
      return [bottom < 0 ? bottom - room : 0, top > 0 ? top + room : bottom < 0 ? 0 : 1];
    };
    return { range };
  }

  line(one) {
    const stroke = colour(one.colour);
    const common = { label: one.label, stroke, spanGaps: false };
    if (this.form === "bars") {
      return { ...common, fill: stroke, width: 0, points: { show: false }, paths: uPlot.paths.bars({ size: [0.85, 60], gap: 1 }) };
    }
    if (this.form === "points") return { ...common, paths: () => null, points: { show: true, size: 9, fill: stroke } };
    if (this.form === "stacked") return { ...common, fill: stroke, width: 1, points: { show: false } };
    const filter = (u, number, isShown) => (isShown ? null : alone(u.data[number]));
    return { ...common, width: 2, dash: one.dash, points: { size: 6, fill: stroke, filter } };
  }

  /** The arrow keys move the cursor from value to value. */
  move(event) {
    const last = this.values.rows[0].length - 1;
    const now = this.plot.cursor.idx ?? -1;
    const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    const index = Math.max(0, Math.min(last, to));
    this.plot.setCursor({ left: this.plot.valToPos(this.values.rows[0][index], "x"), top: CHART_HEIGHT / 3 });
  }

  nameOf(x) {
    return this.names?.[x] ?? `${this.axes[this.axis]} ${shown(x)}`;
  }

  read(index) {
    const { on, rows, edges } = this.values;
    if (index === null || index === undefined || rows[0].length === 0) {
      this.readout.textContent = "";
      return;
    }
    const band = (edge) => (edge === null || edge[0][index] === undefined ? "" : ` (${edge.map((ys) => shown(ys[index])).join(" to ")})`);
    const values = on.map((one, number) => `${one.label} ${shown(rows[number + 1][index])}${band(edges[number])}`);
    this.readout.textContent = `${this.nameOf(rows[0][index])}: ${values.join("; ")}`;
  }

  /** For who does not see it. */
  describe() {
    const of = (one) => {
      const values = one.ys.filter((y) => y !== null && y !== undefined);
      if (values.length === 0) return `${one.label}: no values`;
      const [low, high] = [Math.min(...values), Math.max(...values)];
      return `${one.label}: from ${shown(low)} to ${shown(high)}, at the end ${shown(values[values.length - 1])}`;
    };
    return `Chart of ${this.title}, ${this.unit}. ${this.values.on.map(of).join(". ")}. Arrow keys read values.`;
  }

  fillTable() {
    const { on, edges, rows: [xs, ...means] } = this.values;
    const columns = on.flatMap((one, number) => {
      const [low, high] = edges[number] ?? [];
      return [[one.label, means[number]], ...(low ? [[`${one.label}, low`, low], [`${one.label}, high`, high]] : [])];
    });
    const every = Math.max(1, Math.ceil(xs.length / TABLE_ROWS));
    const cells = (k) => columns.map(([, ys]) => make("td", {}, shown(ys[k])));
    const line = (x, k) => make("tr", {}, make("th", { scope: "row" }, this.names?.[x] ?? shown(x)), ...cells(k));
    const lines = Array.from(xs, line).filter((_, k) => k % every === 0 || k === xs.length - 1);
    const head = [this.axes[this.axis], ...columns.map(([label]) => label)].map((name) => make("th", { scope: "col" }, name));
    this.data.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...lines)));
  }
}

/** Bars with a name each. `series`: { label, ys }. */
function namedBars(place, { names, series, ...rest }) {
  const numbers = names.map((_, number) => number);
  return new Chart(place, { ...rest, form: "bars", names, series: series.map((one) => ({ label: one.label, xs: { x: numbers }, ys: one.ys })) });
}
