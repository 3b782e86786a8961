// The blocks of a drive: a cell for a few consecutive blocks; and their wear.

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const STEPS = 15;
const RETIRED = 15;
const KINDS = [
  ["nothing", "free"], ["data", "color-0"], ["translation pages", "color-2"], ["deltas", "color-3"], ["compressed chunks", "color-4"],
  ["the remap log", "color-5"], ["page validity", "color-6"],
];
const kindOf = (number) => (number === RETIRED ? ["nothing: retired", "retired"] : KINDS[number] ?? KINDS[1]);

/** Cells of a frame: shares of pages and the number of the kind. docs/reports.md has the same lines in Python. */
function cellsOf(frame) {
  const cells = [];
  for (let at = 0; at < frame.cells.length; at += 2) {
    const number = (DIGITS.indexOf(frame.cells[at]) << 6) | DIGITS.indexOf(frame.cells[at + 1]);
    cells.push({ valid: (number >> 8) / STEPS, invalid: ((number >> 4) & 15) / STEPS, kind: number & 15 });
  }
  return cells;
}

/** The histogram of the blocks' erases as bars of a chart. */
function wearSeries({ wear }) {
  const { first_erases: first, erases_per_bin: width, blocks } = wear;
  return [{ label: "blocks", xs: { erases: blocks.map((_, bin) => first + bin * width) }, ys: blocks }];
}

class BlockMap {
  /** `shape`: number of blocks and of those that share a cell. `tools`: elements between the caption and the map. */
  constructor(place, { title, shape, tools = [] }) {
    Object.assign(this, { shape, cells: [], moment: "", selected: null, isByKind: false });
    this.canvas = make("canvas", { class: "map", tabindex: "0", role: "img" });
    this.readout = make("p", { class: "readout", role: "status" });
    this.key = make("div", { class: "bar", role: "group", "aria-label": "Colours of the map" });
    const { blocks, blocks_per_cell: each } = shape;
    const note = `A cell is ${each === 1 ? `one of ${shown(blocks)} blocks` : `${each} consecutive blocks of ${shown(blocks)}`}; `
      + "it is filled from below with valid, then invalid pages. Valid is what the controller counts: with a map on flash an upper bound.";
    place.append(make("figure", { class: "wide" },
      make("figcaption", {}, make("h3", {}, title), make("p", {}, note)),
      make("div", { class: "bar" }, toggle("by kind", false, (isOn) => { this.isByKind = isOn; this.draw(); })),
      this.key, ...tools, this.canvas, this.readout));
    this.canvas.addEventListener("keydown", (event) => this.select(event));
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => this.point(event));
    drawn.push(this);
    new ResizeObserver(() => this.canvas.clientWidth !== this.drawnWidth && this.draw()).observe(this.canvas);
  }

  /** Shows the blocks as they are in a frame; `moment` says when that is. */
  show(frame, moment) {
    this.cells = cellsOf(frame);
    this.moment = moment;
    this.tell();
    this.draw();
  }

  /** Columns, and the side of a cell in pixels of the style sheet. */
  layout(width) {
    const ideal = Math.sqrt((width * 300) / this.cells.length);
    const columns = Math.max(1, Math.floor(width / Math.max(6, Math.min(32, ideal))));
    return { columns: Math.min(columns, this.cells.length), side: Math.min(width / columns, 36) };
  }

  draw() {
    const width = matchMedia("print").matches ? PRINT_WIDTH : Math.max(this.canvas.clientWidth, 120);
    const { columns, side } = this.layout(width);
    Object.assign(this, { columns, side, drawnWidth: this.canvas.clientWidth });
    const height = Math.ceil(this.cells.length / columns) * side;
    const dense = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * dense);
    this.canvas.height = Math.round(height * dense);
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    context.scale(dense, dense);
    this.paint(context);
    this.describe();
  }

  paint(context) {
    const colours = new Map(["free", "invalid", "ink", "valid", "retired", ...KINDS.map((kind) => kind[1])].map((name) => [name, colour(name)]));
    const gap = this.side > 8 ? 1 : 0.5;
    this.cells.forEach((cell, number) => {
      const [x, y, size] = [(number % this.columns) * this.side, Math.floor(number / this.columns) * this.side, this.side - gap];
      const fill = (name, from, share) => {
        context.fillStyle = colours.get(name);
        context.fillRect(x, y + size * (1 - from - share), size, size * share);
      };
      const kind = kindOf(cell.kind)[1];
      fill(cell.kind === RETIRED ? "retired" : "free", 0, 1);
      fill(this.isByKind ? kind : "valid", 0, this.isByKind ? cell.valid + cell.invalid : cell.valid);
      if (!this.isByKind) fill("invalid", cell.valid, cell.invalid);
      if (number === this.selected) {
        context.strokeStyle = colours.get("ink");
        context.lineWidth = 2;
        context.strokeRect(x, y, size, size);
      }
    });
  }

  describe() {
    const mean = (of) => this.cells.reduce((sum, cell) => sum + of(cell), 0) / this.cells.length;
    const [valid, invalid] = [mean((cell) => cell.valid), mean((cell) => cell.invalid)].map((share) => 100 * share);
    const percent = (share) => `${share.toFixed(0)} %`;
    const found = [...new Set(this.cells.map((cell) => cell.kind))].sort((a, b) => a - b).map(kindOf);
    this.canvas.setAttribute("aria-label", `Map of the blocks ${this.moment}: ${percent(valid)} of the pages valid, `
      + `${percent(invalid)} invalid, ${percent(100 - valid - invalid)} free. Arrow keys read cells.`);
    const names = this.isByKind ? found : [["valid", "valid"], ["invalid", "invalid"], ["free", "free"], ["retired", "retired"]];
    this.key.replaceChildren(...names.map(([name, ofColour]) => {
      const sample = make("span", { class: "key", "aria-hidden": "true" });
      sample.style.background = `var(--${ofColour})`;
      return make("label", {}, sample, name);
    }));
  }

  point(event) {
    const column = Math.floor(event.offsetX / this.side);
    const number = Math.floor(event.offsetY / this.side) * this.columns + column;
    if (column < this.columns && number < this.cells.length) this.choose(number);
  }

  select(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const to = this.selected === null ? 0 : this.selected + steps[event.key];
    this.choose(Math.max(0, Math.min(this.cells.length - 1, to)));
  }

  choose(number) {
    if (number === this.selected) return;
    this.selected = number;
    this.tell();
    this.draw();
  }

  /** Reads out the selected cell. */
  tell() {
    const number = this.selected;
    if (number === null) return;
    const { blocks_per_cell: each, blocks } = this.shape;
    const [first, last] = [number * each, Math.min((number + 1) * each, blocks) - 1];
    const cell = this.cells[number];
    const percent = (share) => `${(100 * share).toFixed(0)} %`;
    this.readout.textContent = `${first === last ? `block ${first}` : `blocks ${first} to ${last}`}: ${percent(cell.valid)} valid, `
      + `${percent(cell.invalid)} invalid, ${percent(1 - cell.valid - cell.invalid)} free; holds ${kindOf(cell.kind)[0]}`;
  }
}

/** The map with a slider for the moment; `onFrame` gets the frame of the chosen one. */
class BlocksOverTime {
  constructor(place, timeline, onFrame) {
    Object.assign(this, { timeline, onFrame });
    const last = timeline.frames.length - 1;
    this.slider = make("input", { type: "range", min: "0", max: last, step: "1", value: last, "aria-label": "Moment of the run" });
    this.output = make("output", {});
    const tools = [make("div", { class: "bar" }, make("label", { class: "moment" }, "moment ", this.slider), this.output)];
    this.map = new BlockMap(place, { title: "Blocks over time", shape: timeline, tools });
    this.slider.addEventListener("input", () => this.move());
    this.move();
  }

  move() {
    const frame = this.timeline.frames[Number(this.slider.value)];
    const moment = `after ${shown(frame.requests)} requests, ${shown(frame.host_bytes / 2 ** 30)} GiB written`;
    this.output.textContent = moment;
    this.slider.setAttribute("aria-valuetext", moment);
    this.map.show(frame, moment);
    this.onFrame(frame);
  }
}
