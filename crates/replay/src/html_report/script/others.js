// Sweeps, lives, ablations, profiles and differences.

/** As in the tables: none of few requests, nor of an overloaded drive. */
const p99 = (run, latency) => (latency.count >= 100 && !run.service.is_overloaded ? latency.p99 : null);

const FIGURES = [
  ["write amplification, bytes", (run) => run.bytes.write_amplification],
  ["write amplification, pages", (run) => (run.host_page_writes > 0 ? run.write_amplification : null)],
  ["block erases", (run) => run.erases],
  ["TB written until worn", (run) => run.lifetime.host_tb_written_until_worn],
  ["years at this rate", (run) => (run.service.is_overloaded ? null : run.lifetime.years)],
  ["write latency p99, us", (run) => p99(run, run.latency_us.write)],
  ["read latency p99, us", (run) => p99(run, run.latency_us.read)],
  ["controller RAM, MiB", (run) => run.ram_bytes / 2 ** 20],
];

/** The settings that tell runs apart, but for the seed. */
function settingsOf(run) {
  const settings = run.variant.split(" ").filter((one) => one.includes("=") && !one.startsWith("replay.seed="));
  return new Map(settings.map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)]));
}

/** The input, whatever the seed of a generator. */
const inputOf = (run) => run.trace.path.replace(/([:,])seed=\d+,?/, "$1");

/** A line for each design and each combination of the other settings; repeated x values are averaged. */
function sweptSeries(runs, key, figure) {
  const lines = new Map();
  const hasSeveralInputs = new Set(runs.map(inputOf)).size > 1;
  runs.forEach((run, number) => {
    const settings = settingsOf(run);
    const x = key === null ? number + 1 : Number(settings.get(key));
    const others = [...settings].filter(([name]) => name !== key).map(([name, value]) => `${name}=${value}`);
    const label = [run.design, ...(key === null ? [] : others), ...(hasSeveralInputs ? [`on ${inputOf(run)}`] : [])].join(" ");
    const line = lines.get(label) ?? new Map();
    const y = figure(run);
    if (y !== null && y !== undefined && Number.isFinite(x)) line.set(x, [...(line.get(x) ?? []), y]);
    lines.set(label, line);
  });
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return [...lines].filter(([, line]) => line.size > 0).map(([label, line]) => {
    const xs = [...line.keys()].sort((a, b) => a - b);
    return { label, xs: { x: xs }, ys: xs.map((x) => mean(line.get(x))) };
  });
}

function showSweep(place, runs) {
  if (runs.length === 0) return;
  const values = new Map();
  for (const run of runs) for (const [key, value] of settingsOf(run)) values.set(key, (values.get(key) ?? new Set()).add(value));
  const isNumeric = (set) => set.size > 1 && [...set].every((value) => value !== "" && Number.isFinite(Number(value)));
  const keys = [...values].filter(([, set]) => isNumeric(set)).map(([key]) => key);
  const figures = FIGURES.filter(([, figure]) => runs.some((run) => figure(run) !== null && figure(run) !== undefined));
  let [key, figure] = [keys[0] ?? null, 0];
  const holder = make("div", { class: "grid" });
  const draw = () => {
    empty(holder);
    const series = sweptSeries(runs, key, figures[figure][1]);
    new Chart(holder, {
      title: `${figures[figure][0]}${key === null ? " of each run" : ` over ${key}`}`, note: "runs that differ in their seed only are averaged",
      unit: figures[figure][0], axes: { x: key ?? "run, in the order of the table" }, series, form: key === null ? "points" : "lines", wide: true,
    });
  };
  const bar = make("div", { class: "bar" }, choice("figure ", figures.map(([name]) => name), (number) => { figure = number; draw(); }));
  if (keys.length > 0) bar.append(choice("over ", [...keys, "runs in order"], (number) => { key = keys[number] ?? null; draw(); }));
  place.append(bar, holder);
  draw();
}

const driveLabel = (drive) =>
  [drive.design, drive.leveling === "configured" ? null : drive.leveling.replaceAll("_", "-")].filter((part) => part !== null).join(" ");

const lifeLabel = (drive, life) => (drive.lives.length > 1 ? `${driveLabel(drive)} seed ${life.seed}` : driveLabel(drive));

/** From this number of drives on a band is the 95 % interval of the mean; of fewer it shows the extremes. */
const DRIVES_OF_INTERVAL = 5;

const TB_AXIS = { tb: "TB written by the host" };

/** A line for each drive: the mean over its seeds with, if there are several, a band. An interval ends where no value can be. */
function curvesOf(drives, isInterval, figure, { scale = 1, most = Infinity }) {
  return drives.map((drive) => {
    const along = (value) => drive.curves.map((point) => scale * value(figure(point)));
    const edges = isInterval
      ? { low: along((one) => Math.max(0, one.mean - one.half_width)), high: along((one) => Math.min(most, one.mean + one.half_width)) }
      : { low: along((one) => one.least), high: along((one) => one.most) };
    return { label: driveLabel(drive), ...tbOf(drive), ys: along((one) => one.mean), ...(drive.lives.length > 1 && edges) };
  });
}

const tbOf = (drive) => ({ xs: { tb: drive.curves.map((point) => point.host_bytes / 1e12) } });

/** Means over the drives that differ in their seed only, with bands. */
function showCurves(grid, all) {
  const drives = all.filter((drive) => drive.curves.length > 0);
  const counts = drives.map((drive) => drive.lives.length);
  const isInterval = Math.min(...counts) >= DRIVES_OF_INTERVAL;
  const band = isInterval ? "95 % interval of the mean (Student's t)" : "least and greatest of them";
  const note = `mean of ${Math.max(...counts)} drives, band: ${band}. A drive that has ended keeps its last value`;
  const chart = (title, unit, figure, range = {}) =>
    new Chart(grid, { title, note, unit, axes: TB_AXIS, series: curvesOf(drives, isInterval, figure, range) });
  chart("Spare blocks left", "% of the new drive's", (point) => point.spare, { scale: 100, most: 1 });
  chart("Write amplification over the life", "programmed / written bytes", (point) => point.write_amplification);
  chart("Erases per block, mean", "erases", (point) => point.mean_erases);
  chart("Erases of the most worn block", "erases", (point) => point.max_erases);
  new Chart(grid, {
    title: "Drives that have ended", unit: "% of the drives", axes: TB_AXIS,
    series: drives.map((drive) => ({
      label: driveLabel(drive), ...tbOf(drive), ys: drive.curves.map((point) => (100 * point.ended) / drive.lives.length),
    })),
  });
}

/** Each drive by itself. */
function showEachLife(grid, lives) {
  const over = (ys) => lives.map(({ drive, life, label }) => ({
    label, xs: { tb: life.series.map((point) => point.host_bytes / 1e12) }, ys: ys(life.series, drive, life),
  }));
  const perByte = (series, drive, life) => {
    const page = life.media_bytes / Math.max(1, series[series.length - 1]?.programs ?? 1);
    return rates(series, (point) => point.programs * page, (point) => point.host_bytes);
  };
  new Chart(grid, { title: "Write amplification over the life", unit: "programmed / written bytes", axes: TB_AXIS, series: over(perByte) });
  new Chart(grid, {
    title: "Spare blocks left", note: "as a share of those of the new drive", unit: "%", axes: TB_AXIS,
    series: over((series) => series.map((point) => 100 * point.spare)),
  });
  new Chart(grid, {
    title: "Erases of the most worn block over the mean", note: "1 where all blocks are worn evenly", unit: "ratio", axes: TB_AXIS,
    series: over((series) => series.map((point) => (point.mean_erases > 0 ? point.max_erases / point.mean_erases : null))),
  });
}

const WEAR_PARTS = [["least", "least"], ["p10", "10 %"], ["p50", "median"], ["p90", "90 %"], ["most", "most"]];

/** `wears`: { label, lives }, whose lives are averaged. */
function showWearAtTheEnd(grid, wears) {
  const mean = (lives, field) => lives.reduce((sum, life) => sum + life.wear[field], 0) / lives.length;
  new Chart(grid, {
    title: "Wear at the end", note: "erases of the least worn block, of a tenth, half and nine tenths of the blocks, and of the most worn one",
    unit: "erases", axes: { x: "share of the blocks" }, names: WEAR_PARTS.map(([, name]) => name), form: "points",
    series: wears.map(({ label, lives }) => ({
      label, xs: { x: WEAR_PARTS.map((_, k) => k) }, ys: WEAR_PARTS.map(([field]) => mean(lives, field)),
    })),
  });
}

function showLives(place, drives) {
  const lives = drives.flatMap((drive) => drive.lives.map((life) => ({ drive, life, label: lifeLabel(drive, life) })));
  const grid = make("div", { class: "grid" });
  const draw = (isEach) => {
    empty(grid);
    if (isEach) {
      showEachLife(grid, lives);
      showWearAtTheEnd(grid, lives.map(({ life, label }) => ({ label, lives: [life] })));
    } else {
      showCurves(grid, drives);
      showWearAtTheEnd(grid, drives.filter((drive) => drive.lives.length > 0).map((drive) => ({ label: driveLabel(drive), lives: drive.lives })));
    }
  };
  const hasSeeds = drives.some((drive) => drive.lives.length > 1);
  const ways = choice("show ", ["means and bands", "each drive"], (number) => draw(number === 1));
  place.append(make("div", { class: "bar" }, hasSeeds ? ways : null), grid);
  draw(!hasSeeds);
  const detailed = lives.filter(({ life }) => life.timeline).map(({ life, label }) => ({ label, timeline: life.timeline }));
  showDetails(place, detailed, { host_bytes: AXES.host_bytes }, () => {});
}

function showAblation(place, ablation) {
  const figures = ablation.figures.filter((figure) => figure.mechanisms.some((gain) => gain.alone ?? gain.last ?? gain.shapley));
  if (figures.length === 0) return;
  const holder = make("div", { class: "grid" });
  const names = ablation.mechanisms;
  const draw = (number) => {
    const figure = figures[number];
    const series = [["alone", "alone on the baseline"], ["last", "as the last one"], ["shapley", "Shapley value"]].map(([field, label]) => ({
      label, xs: { x: names.map((_, k) => k) },
      ys: figure.mechanisms.map((gain) => { const share = gain[field]?.relative; return share === null || share === undefined ? null : 100 * share; }),
    }));
    empty(holder);
    new Chart(holder, {
      title: `What each mechanism changes of: ${figure.title}`, note: `% of the baseline; ${figure.more_is_better ? "more" : "less"} is better`,
      unit: "%", axes: { x: "mechanism" }, names, series, form: "points", wide: true,
    });
  };
  place.append(make("div", { class: "bar" }, choice("figure ", figures.map((figure) => figure.title), draw)), holder);
  draw(0);
}

const MECHANISMS = { recycle: "recycling", remap: "remap commands", dedup: "deduplication", delta: "delta encoding", compress: "compression" };

/** What each mechanism could save, and what it saved where it was run. */
function showSavings(grid, profile) {
  const known = profile.savings.filter((saving) => saving.at_most !== null);
  if (known.length === 0) return;
  const xs = { x: known.map((_, k) => k) };
  const percent = (of) => known.map((saving) => { const share = of(saving); return share === null || share === undefined ? null : 100 * share; });
  const run = [["when run", "page_writes"], ["all page programs when run", "programs"]];
  new Chart(grid, {
    title: "What each mechanism saves", note: "% of the host's page writes (at most, when run) and of all page programs of the drive",
    unit: "%", axes: { x: "mechanism, by itself" }, names: known.map((saving) => MECHANISMS[saving.mechanism]), form: "points", wide: true,
    series: [
      { label: "at most", xs, ys: percent((saving) => saving.at_most) },
      ...(profile.runs ? run.map(([label, field]) => ({ label, xs, ys: percent((saving) => saving.when_run?.[field]) })) : []),
    ],
  });
}

function showProfile(place, profile) {
  const grid = make("div", { class: "grid" });
  place.append(grid);
  const tenths = Array.from({ length: 10 }, (_, k) => `${k / 10}-${(k + 1) / 10}`);
  const percent = (shares) => shares.map((share) => 100 * share);
  const bars = (title, axis, names, shares, unit = "% of pages") => namedBars(grid, {
    title, unit, axes: { x: axis }, names, series: [{ label: unit, ys: percent(shares) }],
  });
  showSavings(grid, profile);
  if (profile.content?.compressed) bars("Compressed sizes", "size / page (LZ4)", tenths, profile.content.compressed.tenths);
  if (profile.delta) bars("Sizes of differences", "size / page (XOR, LZ4)", tenths, profile.delta.tenths);
  if (profile.traffic?.sizes.length > 0) {
    const sizes = [...profile.traffic.sizes].sort((a, b) => a.pages - b.pages);
    bars("Sizes of requests", "pages of 4 KiB", sizes.map((size) => String(size.pages)), sizes.map((size) => size.share), "% of reads and writes");
  }
  if (profile.skew) {
    const { top_1_percent: one, top_10_percent: ten, top_20_percent: twenty } = profile.skew;
    bars("Skew of writes", "hottest pages", ["1 %", "10 %", "20 %"], [one, ten, twenty], "% of writes");
  }
}

const LARGEST_CHANGES = 16;

function showPair(place, pair) {
  const numeric = pair.results.filter((one) => typeof one.a === "number" && typeof one.b === "number" && one.a !== 0 && !one.is_hidden.includes(true));
  const ratios = numeric.map((one) => ({ name: one.field, ratio: one.b / one.a })).filter((one) => one.ratio > 0);
  const change = (one) => Math.abs(Math.log(one.ratio));
  const largest = ratios.sort((one, other) => change(other) - change(one)).slice(0, LARGEST_CHANGES);
  if (largest.length === 0) return;
  const grid = make("div", { class: "grid" });
  place.append(grid);
  new Chart(grid, {
    title: "Largest changes", note: "figure of the second file over that of the first: 1 is no change", unit: "ratio", axes: { x: "" }, wide: true,
    log: true, form: "points", names: largest.map((one) => one.name),
    series: [{ label: "ratio", xs: { x: largest.map((_, k) => k) }, ys: largest.map((one) => one.ratio) }],
  });
}
