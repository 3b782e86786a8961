// A small drive, step by step: the flash as a grid, what the engine did in the step, and controls to move through the steps.

const PLAY_MS = 1500;
const CHECKPOINT_STEPS = 64;
const LINES_SHOWN = 40;
const JUMPS = [
  ["collection", "collection"], ["bind", "bind"], ["delta", "delta"], ["chunk", "chunk"], ["metadata", "metadata write"], ["cut", "loss of power"],
];
/** What a cell of the flash shows: class, letter, and its meaning in the legend. */
const LOOKS = {
  free: ["free", "", "free (erased)"],
  data: ["data", "", "valid data, with its logical page"],
  shared: ["shared", "", "valid data that several logical pages share"],
  invalid: ["invalid", "", "invalid"],
  recyclable: ["recyclable", "", "invalid, can be recycled"],
  translation: ["metadata", "T", "metadata: translation (T), validity (V), remap log (R), head and tail of a block (H)"],
  validity: ["metadata", "V", ""],
  "remap-log": ["metadata", "R", ""],
  head: ["metadata", "H", ""],
  tail: ["metadata", "H", ""],
  delta: ["delta", "D", "deltas"],
  chunk: ["chunk", "C", "compressed chunk"],
  torn: ["torn", "×", "torn by a loss of power"],
};
const MARKS = [
  ["written", "programmed in this step"], ["gone", "invalid since this step"], ["read", "read in this step"], ["erased", "block erased in this step"],
];

/** The states that the steps leave; every few steps one is kept, so that any other is near one. */
class States {
  constructor(walk) {
    this.steps = walk.steps;
    const { blocks, block_pages: each, logical_pages: logical } = walk.drive;
    const rows = (count, row) => Array.from({ length: count }, (_, number) => row(number));
    this.blank = {
      pages: rows(blocks * each, (ppn) => [ppn, 0, 0, null, 0]),
      blocks: rows(blocks, (block) => [block, 0, 0, 0, 0]),
      map: rows(logical, (lpn) => [lpn, 0, []]),
    };
    this.kept = [];
  }

  at(number) {
    if (number < 0) return this.blank;
    const from = Math.floor(number / CHECKPOINT_STEPS);
    let state = this.kept[from] ?? (from === 0 ? this.blank : this.at(from * CHECKPOINT_STEPS - 1));
    this.kept[from] ??= state;
    for (let step = from * CHECKPOINT_STEPS; step <= number; step += 1) state = this.after(state, this.steps[step]);
    return state;
  }

  after(state, step) {
    const changed = (rows, changes) => {
      if (changes.length === 0) return rows;
      const copy = rows.slice();
      for (const row of changes) copy[row[0]] = row;
      return copy;
    };
    return { pages: changed(state.pages, step.pages), blocks: changed(state.blocks, step.blocks), map: changed(state.map, step.map) };
  }
}

class Walk {
  constructor(place) {
    Object.assign(this, { drive: record.drive, names: record.names, steps: record.steps, states: new States(record), number: 0, isBefore: false });
    this.makeControls();
    this.makeFlash();
    this.text = make("div", { class: "telling", "aria-live": "polite" });
    this.victims = make("div", {});
    this.operations = make("div", {});
    this.entries = make("div", {});
    this.numbers = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Counters" });
    place.append(make("div", { class: "walk" }, this.controls, this.jumps, make("div", { class: "stage" },
      make("div", { class: "seen" }, this.flash, this.numbers),
      make("div", { class: "told" }, this.text, this.victims, this.operations, this.entries))));
    this.makeCharts(place);
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("hashchange", () => this.go(this.numberInAddress()));
    this.go(this.numberInAddress());
    drawn.push({ draw: () => { this.drawArrows(); this.markCharts(); } });
    new ResizeObserver(() => this.drawArrows()).observe(this.dies);
  }

  numberInAddress() {
    const found = /^#step=(\d+)$/.exec(location.hash);
    return found ? Number(found[1]) : this.number;
  }

  makeControls() {
    const last = this.steps.length - 1;
    this.slider = make("input", { type: "range", min: "0", max: last, step: "1", value: "0", "aria-label": "Step" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.output = make("output", {});
    this.player = button("play", () => this.play(), { "aria-pressed": "false" });
    const to = (label, name, number) => button(label, () => this.go(number()), { "aria-label": name, title: name });
    const jumps = JUMPS.filter(([mark]) => this.steps.some((step) => step.marks.includes(mark)))
      .map(([mark, name]) => button(`next ${name}`, () => this.jump(mark), { "data-jump": mark }));
    this.controls = make("div", { class: "controls", role: "group", "aria-label": "Steps" },
      make("div", { class: "bar" },
        to("first", "first step", () => 0), to("previous", "previous step", () => this.number - 1), this.player,
        to("next", "next step", () => this.number + 1), to("last", "last step", () => last), this.slider, this.output));
    this.jumps = make("div", { class: "bar", role: "group", "aria-label": "Jumps, and what is shown" }, ...jumps,
      toggle("show the flash before the step", false, (isOn) => { this.isBefore = isOn; this.show(); }));
  }

  makeFlash() {
    this.dies = make("div", { class: "dies" });
    this.arrows = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.arrows.setAttribute("class", "arrows");
    this.arrows.setAttribute("aria-hidden", "true");
    this.grid = make("div", { class: "flash", tabindex: "0", role: "group" }, this.dies, this.arrows);
    this.readout = make("p", { class: "readout", role: "status" }, "Arrow keys in the flash, or the pointer, read out a page.");
    this.grid.addEventListener("keydown", (event) => this.select(event));
    for (const name of ["pointerover", "click"]) {
      this.grid.addEventListener(name, (event) => this.point(event));
    }
    this.cells = [];
    this.labels = [];
    this.drive.pools.forEach((name, pool) => this.dies.append(this.makePool(name, pool)));
    this.flash = make("figure", { class: "flashing" },
      make("figcaption", {}, make("h3", {}, "Flash"), this.legend()), this.grid, this.readout);
  }

  makePool(name, pool) {
    const blocks = [];
    for (let block = pool; block < this.drive.blocks; block += this.drive.pools.length) {
      const cells = Array.from({ length: this.drive.block_pages }, (_, page) => {
        const ppn = block * this.drive.block_pages + page;
        this.cells[ppn] = make("span", { class: "cell", "data-page": ppn });
        return this.cells[ppn];
      });
      this.labels[block] = make("span", { class: "label" });
      const row = make("div", { class: "cells" }, ...cells);
      row.style.setProperty("--columns", Math.min(this.drive.block_pages, 16));
      blocks.push(make("div", { class: "block", "data-block": block }, this.labels[block], row));
    }
    return make("section", { class: "die" }, make("h4", {}, name), ...blocks);
  }

  legend() {
    const present = new Set(this.steps.flatMap((step) => step.pages.map((row) => this.lookOf(row))));
    const meaning = new Map();
    for (const [look, [name, , text]] of Object.entries(LOOKS)) {
      const isMeant = look === "free" || [...present].some((one) => LOOKS[one][0] === name);
      if (isMeant && !meaning.has(name)) meaning.set(name, text);
    }
    const entry = (css, text) => make("li", {}, make("span", { class: `cell ${css}`, "aria-hidden": "true" }), text);
    return make("ul", { class: "meanings" }, ...[...meaning].map(([name, text]) => entry(name, text)),
      ...MARKS.map(([name, text]) => entry(name, text)));
  }

  /** Which of the looks a flash page has. */
  lookOf([, state, kind, , referrers]) {
    const [stateName, kindName] = [this.names.page_states[state], this.names.kinds[kind]];
    if (stateName !== "valid") return stateName;
    return kindName === "data" ? (referrers > 1 ? "shared" : "data") : kindName;
  }

  makeCharts(place) {
    const xs = { step: this.steps.map((_, number) => number) };
    const of = (value) => this.steps.map((step) => value(step.counters));
    const amplification = of((now) => (now.host_writes ? now.programs / now.host_writes : null));
    const grid = make("div", { class: "grid" });
    place.append(grid);
    const chart = (title, unit, label, ys) => new Chart(grid, { title, unit, axes: { step: "step" }, series: [{ label, xs, ys }] });
    this.charts = [
      chart("Write amplification since the drive was new", "programs per host write", "write amplification", amplification),
      chart("Free blocks", "blocks", "free blocks", of((now) => now.free_blocks)),
    ];
  }

  go(number) {
    this.number = Math.max(0, Math.min(this.steps.length - 1, number));
    this.show();
    if (location.hash !== `#step=${this.number}`) history.replaceState(null, "", `#step=${this.number}`);
  }

  jump(mark) {
    const has = (step) => step.marks.includes(mark);
    const later = this.steps.findIndex((step, number) => number > this.number && has(step));
    this.go(later >= 0 ? later : this.steps.findIndex(has));
  }

  play() {
    if (this.timer) {
      clearInterval(this.timer);
      this.timer = null;
    } else {
      this.timer = setInterval(() => (this.number === this.steps.length - 1 ? this.play() : this.go(this.number + 1)), PLAY_MS);
    }
    this.player.textContent = this.timer ? "pause" : "play";
    this.player.setAttribute("aria-pressed", Boolean(this.timer));
  }

  key(event) {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return;
    const tag = event.target.tagName;
    if (tag === "INPUT" || tag === "SELECT") return;
    if (event.key === " ") {
      if (["BUTTON", "SUMMARY", "A"].includes(tag)) return;
      event.preventDefault();
      this.play();
      return;
    }
    const last = this.steps.length - 1;
    const to = { ArrowRight: this.number + 1, ArrowLeft: this.number - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.go(to);
  }

  show() {
    const step = this.steps[this.number];
    [this.before, this.after] = [this.states.at(this.number - 1), this.states.at(this.number)];
    this.shown = this.isBefore ? this.before : this.after;
    this.slider.value = this.number;
    this.output.textContent = `step ${this.number} of ${this.steps.length - 1}`;
    this.slider.setAttribute("aria-valuetext", `${this.output.textContent}: ${step.title}`);
    this.text.replaceChildren(make("h3", {}, step.title), ...step.sentences.map((sentence) => make("p", {}, sentence)));
    this.note(step);
    this.paint();
    this.showVictims(step);
    this.showOperations(step);
    this.showEntries(step);
    this.showCounters(step);
    this.drawArrows();
    this.markCharts();
  }

  /** Moves the cursor of the charts to the step; a chart has its size only in the next frame. */
  markCharts() {
    requestAnimationFrame(() => this.charts?.forEach(({ plot }) => plot.setCursor({ left: plot.valToPos(this.number, "x"), top: 10 })));
  }

  /** Notes which pages and blocks the step concerns. */
  note(step) {
    const all = (op, key) => step.events.filter((event) => event.op === op).map((event) => event[key]);
    this.moves = step.events.filter((event) => event.op === "copy");
    this.written = new Set([...all("program", "page"), ...all("copy", "to")]);
    this.read = new Set([...all("read", "page"), ...all("copy", "from")]);
    this.erased = new Set(all("erase", "block"));
    this.victim = new Set(all("victim", "block"));
    const isLive = (row) => ["valid"].includes(this.names.page_states[row[1]]);
    this.gone = new Set(step.pages.filter((row) => !isLive(row) && row[1] !== 0 && isLive(this.before.pages[row[0]])).map((row) => row[0]));
  }

  paint() {
    this.cells.forEach((cell, ppn) => {
      const row = this.shown.pages[ppn];
      const look = this.lookOf(row);
      const [css, letter] = LOOKS[look];
      const marks = [[this.written, "written"], [this.gone, "gone"], [this.read, "read"]].filter(([set]) => set.has(ppn)).map(([, name]) => name);
      cell.className = ["cell", css, ...marks].join(" ");
      const isData = this.names.kinds[row[2]] === "data";
      cell.textContent = letter || (isData && row[3] !== null ? row[3] : "");
    });
    this.labels.forEach((label, block) => {
      const [, state, stream, valid, erases] = this.shown.blocks[block];
      const name = this.names.block_states[state];
      const filled = name === "open" ? `open: ${this.names.streams[stream]}` : name;
      label.replaceChildren(make("b", {}, `block ${block}`), make("span", {}, `${filled}, ${valid} valid`), make("span", {}, `erased ${erases}×`));
      const row = label.parentElement;
      row.className = ["block", this.erased.has(block) ? "erased" : "", this.victim.has(block) ? "victim" : "", name].filter(Boolean).join(" ");
    });
    this.grid.setAttribute("aria-label", `Flash ${this.isBefore ? "before" : "after"} step ${this.number}: ${this.summary()}. Arrow keys read pages.`);
  }

  summary() {
    const counts = new Map();
    for (const row of this.shown.pages) {
      const name = this.names.page_states[row[1]];
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    return [...counts].map(([name, count]) => `${count} ${name}`).join(", ");
  }

  placeOf(ppn) {
    return `block ${Math.floor(ppn / this.drive.block_pages)}, page ${ppn % this.drive.block_pages}`;
  }

  select(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.drive.block_pages * this.drive.pools.length,
      ArrowUp: -this.drive.block_pages * this.drive.pools.length };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const to = this.selected === undefined ? 0 : this.selected + steps[event.key];
    this.tell(Math.max(0, Math.min(this.cells.length - 1, to)));
  }

  point(event) {
    const page = event.target.dataset?.page;
    if (page !== undefined) this.tell(Number(page));
  }

  /** Reads out a flash page, and shows which one it is. */
  tell(ppn) {
    this.cells[this.selected]?.removeAttribute("data-selected");
    this.selected = ppn;
    this.cells[ppn].setAttribute("data-selected", "");
    const [, state, kind, owner] = this.shown.pages[ppn];
    const holders = this.shown.map.filter((row) => row[2].includes(ppn)).map((row) => row[0]);
    const what = this.names.kinds[kind];
    const parts = [`${this.placeOf(ppn)}: ${this.names.page_states[state]}`];
    if (what !== "none") parts.push(what === "data" ? "data" : what);
    if (what === "data" && owner !== null) parts.push(`written for logical page ${owner}`);
    if (holders.length > 0) parts.push(`needed by logical page${holders.length > 1 ? "s" : ""} ${holders.join(", ")}`);
    this.readout.textContent = parts.join("; ");
  }

  table(caption, head, rows, css = "") {
    const line = ([title, ...cells], name) => make("tr", name ? { class: name } : {}, make("th", { scope: "row" }, title), ...cells.map((cell) => make("td", {}, cell)));
    return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      make("table", { class: css }, make("caption", {}, caption),
        make("thead", {}, make("tr", {}, ...head.map((title) => make("th", { scope: "col" }, title)))),
        make("tbody", {}, ...rows.map(([cells, name]) => line(cells, name)))));
  }

  showVictims(step) {
    const figure = (rule, [, valid, , , , value]) => {
      if (rule !== "policy") return shown(valid);
      if (value !== null) return shown(value);
      return valid === 0 && this.drive.policy === "cost-benefit" ? "∞" : "not looked at";
    };
    this.victims.replaceChildren(...step.events.filter((event) => event.op === "victim").map((choice) => {
      const title = choice.rule === "policy" ? this.drive.figure : "valid pages";
      const rows = choice.candidates.map((row) => {
        const [block, valid, age, erases, kind] = row;
        const isVictim = block === choice.block;
        return [[`block ${block}${isVictim ? ": victim" : ""}`, shown(valid), shown(age), shown(erases), this.names.kinds[kind], figure(choice.rule, row)],
          isVictim ? "chosen" : ""];
      });
      const caption = `Candidates of ${this.drive.pools[choice.pool]} for collection, as the policy ${this.drive.policy} sees them`;
      return this.table(caption, ["candidate", "valid", "age", "erases", "kind", `ranked by: ${title}`], rows, "victims");
    }));
  }

  showOperations(step) {
    const lines = this.lines(step.events);
    const shownLines = lines.slice(0, LINES_SHOWN).map((line) => make("li", {}, line));
    if (lines.length > LINES_SHOWN) shownLines.push(make("li", {}, `and ${lines.length - LINES_SHOWN} more`));
    const list = lines.length > 0 ? make("ol", { class: "operations" }, ...shownLines) : make("p", {}, "None.");
    this.operations.replaceChildren(make("h4", {}, "Flash operations, with their causes"), list);
  }

  /** The operations as texts; neighbours that differ only in the page are one. */
  lines(events) {
    const groups = [];
    for (const event of events) {
      if (event.op === "reason" || event.op === "victim") continue;
      const page = event.page ?? event.from ?? event.block;
      const last = groups[groups.length - 1];
      const isNext = last && last.event.op === event.op && last.event.cause === event.cause && last.event.spare === event.spare
        && event.op !== "erase" && last.end + 1 === page && (event.op !== "copy" || last.toEnd + 1 === event.to)
        && Math.floor(last.end / this.drive.block_pages) === Math.floor(page / this.drive.block_pages);
      if (isNext) Object.assign(last, { end: page, toEnd: event.to });
      else groups.push({ event, start: page, end: page, to: event.to, toEnd: event.to });
    }
    return groups.map((group) => this.line(group));
  }

  line({ event, start, end, to, toEnd }) {
    const cause = event.cause.replace("_", " ");
    const range = (from, until) => {
      const page = (ppn) => ppn % this.drive.block_pages;
      return from === until ? this.placeOf(from) : `block ${Math.floor(from / this.drive.block_pages)}, pages ${page(from)} to ${page(until)}`;
    };
    switch (event.op) {
      case "erase": return `erase block ${event.block} (${cause})`;
      case "copy": return `copy ${range(start, end)} to ${range(to, toEnd)} (${cause})`;
      case "program": return `program ${range(start, end)} (${cause})`;
      default: return `read ${event.spare ? "spare area of " : ""}${range(start, end)} (${cause})`;
    }
  }

  showEntries(step) {
    const at = ([, form, places]) => {
      const where = places.map((ppn) => this.placeOf(ppn)).join(" + ");
      return where ? `${this.names.forms[form]}: ${where}` : this.names.forms[form];
    };
    const rows = step.map.slice(0, LINES_SHOWN).map((row) => [[row[0], at(this.before.map[row[0]]), at(row)], ""]);
    if (rows.length === 0) {
      this.entries.replaceChildren();
      return;
    }
    const more = step.map.length - rows.length;
    const caption = `Map entries that changed${more > 0 ? ` (the first ${rows.length} of ${step.map.length})` : ""}`;
    this.entries.replaceChildren(this.table(caption, ["logical page", "before", "after"], rows, "left wrap"));
  }

  showCounters(step) {
    const before = this.steps[this.number - 1]?.counters;
    const of = (now) => (now.host_writes ? now.programs / now.host_writes : null);
    const row = (title, key) => {
      const difference = before ? step.counters[key] - before[key] : 0;
      return make("tr", {}, make("th", { scope: "row" }, title), make("td", {}, shown(step.counters[key])),
        make("td", {}, difference === 0 ? "" : `${difference > 0 ? "+" : "−"}${Math.abs(difference)}`));
    };
    const amplification = make("tr", {}, make("th", { scope: "row" }, "write amplification"), make("td", {}, shown(of(step.counters))), make("td", {}));
    this.numbers.replaceChildren(make("table", {}, make("caption", {}, "Counters since the drive was new, and what this step added"),
      make("tbody", {}, row("host page writes", "host_writes"), row("page programs", "programs"), row("  for the host", "host_programs"),
        row("served without a program", "binds"), amplification, row("page reads", "reads"), row("block erases", "erases"), row("free blocks", "free_blocks"))));
  }

  /** An arrow for each page that was copied. */
  drawArrows() {
    const box = this.grid.getBoundingClientRect();
    this.arrows.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    this.arrows.setAttribute("width", box.width);
    this.arrows.setAttribute("height", box.height);
    // From edge to edge, so that an arrow covers no number.
    const edge = (ppn, isLower) => {
      const cell = this.cells[ppn].getBoundingClientRect();
      return [cell.left - box.left + cell.width / 2, (isLower ? cell.bottom : cell.top) - box.top];
    };
    this.arrows.replaceChildren(...(this.moves ?? []).map(({ from, to }) => {
      const goesDown = this.cells[to].getBoundingClientRect().top >= this.cells[from].getBoundingClientRect().top;
      const [[x, y], [u, v]] = [edge(from, goesDown), edge(to, !goesDown)];
      const [length, bend] = [Math.hypot(u - x, v - y) || 1, 0.15];
      const [cx, cy] = [(x + u) / 2 - (v - y) * bend, (y + v) / 2 + (u - x) * bend];
      const [dx, dy] = [(u - cx), (v - cy)];
      const far = Math.hypot(dx, dy) || 1;
      const [ux, uy] = [dx / far, dy / far];
      const size = Math.min(8, length / 2);
      const head = `M${u - ux * size - uy * size * 0.5},${v - uy * size + ux * size * 0.5} L${u},${v} L${u - ux * size + uy * size * 0.5},${v - uy * size - ux * size * 0.5}`;
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", `M${x},${y} Q${cx},${cy} ${u},${v} ${head}`);
      return path;
    }));
  }
}
