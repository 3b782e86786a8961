// The live device: receives updates as server-sent events (`update.rs`) and shows them. Rates are differences of counters.

/** Updates that the charts show, at one per second five minutes. */
const KEPT = 300;
const RETRY_MS = 5000;
const MIB = 2 ** 20;

const place = (id) => document.getElementById(id);

/** Names of the figures of the health log; one that is not here is shown under its own name. */
const HEALTH = {
  percent_used: ["mean erases of the rated ones", "%"],
  avail_spare: ["spare blocks left", "%"],
  spare_thresh: ["spare below which there is a warning", "%"],
  percent_free_blocks: ["erased blocks in stock", "% of all blocks"],
  bad_blocks: ["bad blocks", ""],
  min_erase_count: ["erases of the least worn block", ""],
  mean_erase_count: ["mean erases of a block", ""],
  max_erase_count: ["erases of the most worn block", ""],
  rated_erase_count: ["erases a block is rated for", ""],
  media_errors: ["flash pages found unreadable", ""],
  lost_logical_pages: ["logical pages that are lost", ""],
  unproven_logical_pages: ["logical pages that a rescue left out", ""],
  power_cycles: ["starts in the life of the device", ""],
  unsafe_shutdowns: ["ends without notice in the life of the device", ""],
  host_read_commands: ["reads of hosts", ""],
  host_write_commands: ["writes of hosts", ""],
  data_units_read: ["read by hosts", "units of 512,000 bytes"],
  data_units_written: ["written by hosts", "units of 512,000 bytes"],
  media_data_units_written: ["written to flash", "units of 512,000 bytes"],
  physical_media_bytes_written: ["written to flash", "bytes"],
  physical_media_bytes_read: ["read from flash", "bytes"],
};
const HIDDEN = ["critical_warning", "failure"];

/** The device in words: what a person must know first. */
function verdictOf({ critical_warning: warning, failure, avail_spare: spare }) {
  if (failure) return `Failed: ${failure}.`;
  if (warning & 4) return "Damaged: data was lost or cannot be read; the figures below say how much.";
  if (warning & 1) return `Worn: only ${spare} % of the spare blocks are left.`;
  return "Healthy: no warning.";
}

/** An update as a moment of the charts: counters, and their growth per second since the moment before. */
function momentOf({ at_s: at, stats }, before) {
  const seconds = before ? at - before.at : 0;
  const grown = (name) => (before ? stats[name] - before.stats[name] : null);
  const rate = (name) => (seconds > 0 ? Math.max(0, grown(name)) / seconds : null);
  const causes = Object.keys(CAUSES).map((cause) => {
    const count = (of) => of.programs_by_cause[cause] ?? 0;
    return [cause, seconds > 0 ? Math.max(0, count(stats) - count(before.stats)) / seconds : null];
  });
  return { at, stats, rate, causes: Object.fromEntries(causes), now: grown("host_page_writes") > 0 ? grown("programs") / grown("host_page_writes") : null };
}

/** The charts, tiles and tables of one device. */
class Device {
  constructor() {
    this.moments = [];
    this.parts = null;
  }

  show(update) {
    const last = this.moments[this.moments.length - 1];
    // Counters that are smaller are those of a server that was started again.
    const isSame = last && update.at_s > last.at && update.stats.programs >= last.stats.programs;
    if (last && !isSame) this.moments = [];
    this.moments.push(momentOf(update, isSame ? last : null));
    this.moments.splice(0, this.moments.length - KEPT);
    this.parts ??= this.build(update);
    this.fill(update);
  }

  /** A series over the time since the first moment that was received. */
  series(label, of) {
    const first = this.moments[0].at;
    return { label, xs: { seconds: this.moments.map((moment) => moment.at - first) }, ys: this.moments.map(of) };
  }

  amplification() {
    return [this.series("now", (moment) => moment.now), this.series("since the start", (moment) => moment.stats.write_amplification)];
  }

  rates(names) {
    return Object.entries(names).map(([name, label]) => this.series(label, (moment) => moment.rate(name)));
  }

  programs() {
    const seen = Object.keys(CAUSES).filter((cause) => cause === "host" || this.moments.some((moment) => moment.causes[cause] > 0));
    return seen.map((cause) => this.series(CAUSES[cause], (moment) => moment.causes[cause]));
  }

  build(update) {
    const axes = { seconds: "seconds" };
    const [grid, unit] = [place("charts"), "per second"];
    const hosts = { host_reads: "reads", host_writes: "writes", host_trims: "trims", host_flushes: "flushes" };
    const chart = (rest, of) => ({ of, chart: new Chart(grid, { axes, unit, series: of(), ...rest }) });
    const charts = [
      chart({ title: "Write amplification", unit: "programs per host page write" }, () => this.amplification()),
      chart({ title: "Requests of hosts", note: "requests per second" }, () => this.rates(hosts)),
      chart({ title: "Programs by cause", note: "pages programmed per second", form: "stacked" }, () => this.programs()),
      chart({ title: "Erases", note: "blocks erased per second" }, () => this.rates({ erases: "erases" })),
      chart({ title: "Reads of flash", note: "pages read per second, also by garbage collection" }, () => this.rates({ reads: "reads of flash" })),
    ];
    const wear = new Chart(grid, {
      title: "Wear of the blocks", note: "erases since the device was new, bad blocks left out", unit: "blocks", axes: { erases: "erases" },
      series: wearSeries(update), form: "bars",
    });
    return { charts, wear, map: new BlockMap(grid, { title: "Blocks", shape: update }) };
  }

  fill(update) {
    const { charts, wear, map } = this.parts;
    charts.forEach(({ of, chart }) => chart.show(of()));
    wear.show(wearSeries(update));
    map.show(update, "now");
    this.fillTiles(update);
    this.fillHealth(update.health);
  }

  fillTiles({ stats, health }) {
    const { rate, now } = this.moments[this.moments.length - 1];
    const per = (name) => (rate(name) === null ? "-" : `${shown(Math.round(rate(name)))} /s`);
    const bytes = (name) => (rate(name) === null ? "" : `${(rate(name) / MIB).toFixed(1)} MiB/s`);
    const tiles = [
      ["Write amplification", now === null ? "-" : now.toFixed(2), `${stats.write_amplification.toFixed(3)} since start`],
      ["Host writes", per("host_writes"), bytes("host_bytes_written")],
      ["Host reads", per("host_reads"), bytes("host_bytes_read")],
      ["Programs", per("programs"), `${shown(stats.programs)} in all`],
      ["Erases", per("erases"), `${shown(stats.erases)} in all`],
      ["Free blocks", shown(stats.free_blocks), `${health.percent_free_blocks} % of all`],
      ["Wear", `${health.percent_used} %`, `of ${shown(health.rated_erase_count)} erases`],
    ];
    const tile = ([name, value, beside]) => make("div", {}, make("dt", {}, name), make("dd", { class: "now" }, value), make("dd", { class: "beside" }, beside));
    place("tiles").replaceChildren(...tiles.map(tile));
  }

  fillHealth(health) {
    place("verdict").textContent = verdictOf(health);
    const known = Object.keys(HEALTH).filter((name) => name in health);
    const others = Object.keys(health).filter((name) => !(name in HEALTH) && !HIDDEN.includes(name));
    place("health").replaceChildren(...[...known, ...others].map((name) => {
      const [label, unit] = HEALTH[name] ?? [name.replaceAll("_", " "), ""];
      return make("tr", {}, make("th", { scope: "row" }, label), make("td", {}, `${shown(health[name])} ${unit}`.trim()));
    }));
  }
}

/** The page: which export is looked at, and the connection to the server. */
class Dashboard {
  constructor(exports) {
    Object.assign(this, { exports, number: 0, isPaused: false, source: null, retry: null });
    const pause = toggle("pause", false, (isPaused) => { this.isPaused = isPaused; this.connect(); });
    const names = exports.map((one) => one.name);
    place("tools").append(...(names.length > 1 ? [choice("export ", names, (number) => this.choose(number))] : []), pause);
    document.addEventListener("visibilitychange", () => this.connect());
    this.choose(0);
  }

  choose(number) {
    this.number = number;
    const { name, description, read_only: isReadOnly } = this.exports[number];
    place("name").textContent = `${name}: ${description}${isReadOnly ? ", read-only" : ""}`;
    document.title = `Wearwell: ${name}`;
    ["tiles", "health", "verdict"].forEach((id) => place(id).replaceChildren());
    empty(place("charts"));
    this.device = new Device();
    this.connect();
  }

  say(sentence, isTrouble = false) {
    const state = place("state");
    if (state.textContent !== sentence) state.textContent = sentence;
    state.classList.toggle("trouble", isTrouble);
  }

  /** Connects anew, unless nobody looks: a page that is paused or hidden costs the server nothing. */
  connect() {
    this.source?.close();
    clearTimeout(this.retry);
    this.source = null;
    if (this.isPaused) return this.say("paused");
    if (document.hidden) return this.say("waiting until this page is seen");
    this.say("connecting");
    const source = new EventSource(`events/${this.number}`);
    this.source = source;
    source.addEventListener("message", (event) => this.receive(event));
    source.addEventListener("error", () => this.lose(source));
  }

  receive(event) {
    this.device.show(JSON.parse(event.data));
    this.say("live, an update each second");
    document.body.dataset.ready = "true";
  }

  /** A browser connects again by itself unless it was refused; why, it does not tell. */
  async lose(source) {
    this.say("the server does not answer; trying again", true);
    if (source.readyState !== EventSource.CLOSED) return;
    this.retry = setTimeout(() => this.connect(), RETRY_MS);
    const sentence = await sentenceOf(`events/${this.number}`);
    if (sentence && this.source === source) this.say(`${sentence} (trying again every ${RETRY_MS / 1000} seconds)`, true);
  }
}

/** The sentence by which the server refuses an address; empty if it does not. */
async function sentenceOf(address) {
  const hangUp = new AbortController();
  try {
    const answer = await fetch(address, { signal: hangUp.signal });
    return answer.ok ? "" : (await answer.text()).trim();
  } catch {
    return "";
  } finally {
    hangUp.abort();
  }
}

offerColours();
fetch("exports")
  .then((answer) => answer.json())
  .then(({ exports }) => new Dashboard(exports))
  .catch(() => {
    place("state").textContent = "the server does not answer; load this page again";
    place("state").classList.add("trouble");
  });
