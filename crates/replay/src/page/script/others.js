// Sweeps, lives, ablations, profiles and differences.

const FIGURES = [
  ["write amplification", (run) => run.write_amplification],
  ["block erases", (run) => run.erases],
  ["TB written until worn", (run) => run.lifetime.host_tb_written_until_worn],
  ["years at this rate", (run) => run.lifetime.years],
  ["write latency p99, us", (run) => (run.latency_us.write.count >= 100 ? run.latency_us.write.p99 : null)],
  ["read latency p99, us", (run) => (run.latency_us.read.count >= 100 ? run.latency_us.read.p99 : null)],
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

const lifeLabel = (drive, life) =>
  [drive.design, drive.leveling === "configured" ? null : drive.leveling.replaceAll("_", "-"), drive.lives.length > 1 ? `seed ${life.seed}` : null]
    .filter((part) => part !== null).join(" ");

function showLives(place, drives) {
  const lives = drives.flatMap((drive) => drive.lives.map((life) => ({ drive, life, label: lifeLabel(drive, life) })));
  const grid = make("div", { class: "grid" });
  place.append(grid);
  const axes = { tb: "TB written by the host" };
  const over = (ys) => lives.map(({ drive, life, label }) => ({
    label, xs: { tb: life.series.map((point) => point.host_bytes / 1e12) }, ys: ys(life.series, drive, life),
  }));
  const perByte = (series, drive, life) => {
    const page = life.media_bytes / Math.max(1, series[series.length - 1]?.programs ?? 1);
    return rates(series, (point) => point.programs * page, (point) => point.host_bytes);
  };
  new Chart(grid, { title: "Write amplification over the life", unit: "bytes programmed per byte written", axes, series: over(perByte) });
  new Chart(grid, {
    title: "Spare blocks left", note: "as a share of those of the new drive", unit: "%", axes,
    series: over((series) => series.map((point) => 100 * point.spare)),
  });
  new Chart(grid, {
    title: "Erases of the most worn block over the mean", note: "1 where all blocks are worn evenly", unit: "ratio", axes,
    series: over((series) => series.map((point) => (point.mean_erases > 0 ? point.max_erases / point.mean_erases : null))),
  });
  const parts = [["least", "least"], ["p10", "10 %"], ["p50", "median"], ["p90", "90 %"], ["most", "most"]];
  new Chart(grid, {
    title: "Wear at the end", note: "erases of the least worn block, of a tenth, half and nine tenths of the blocks, and of the most worn one",
    unit: "erases", axes: { x: "share of the blocks" }, names: parts.map(([, name]) => name), form: "points",
    series: lives.map(({ life, label }) => ({ label, xs: { x: parts.map((_, k) => k) }, ys: parts.map(([field]) => life.wear[field]) })),
  });
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

function showProfile(place, profile) {
  const grid = make("div", { class: "grid" });
  place.append(grid);
  const tenths = Array.from({ length: 10 }, (_, k) => `${k / 10}-${(k + 1) / 10}`);
  const percent = (shares) => shares.map((share) => 100 * share);
  const bars = (title, axis, names, shares, unit = "% of pages") => namedBars(grid, {
    title, unit, axes: { x: axis }, names, series: [{ label: unit, ys: percent(shares) }],
  });
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
  const numeric = pair.results.filter((one) => typeof one.a === "number" && typeof one.b === "number" && one.a !== 0);
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
