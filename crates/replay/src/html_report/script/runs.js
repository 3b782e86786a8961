// Runs over time: designs beside each other, then one design in detail.

/** Percentiles of a window, and how many requests it needs before they are others than its largest. */
const PERCENTILES = [["p50", "median", 2], ["p99", "99 %", 100], ["p999", "99.9 %", 1000], ["max", "largest", 1]];
const GIB = 2 ** 30;

const labelOf = (run) => (run.variant ? `${run.design} ${run.variant}` : run.design);

/** Moments of a run with counters so far: those of the timeline where there is one. */
const momentsOf = (run) => run.timeline?.windows ?? run.series;

const xsOf = (moments) => ({
  requests: moments.map((moment) => moment.requests),
  host_bytes: moments.map((moment) => moment.host_bytes / GIB),
  device_s: moments.map((moment) => moment.device_s),
});

const AXES = { requests: "requests", host_bytes: "GiB written by the host" };
const axesOf = (runs) => (runs.every((run) => run.timing.mode !== "none") ? { ...AXES, device_s: "device time, s" } : AXES);

/** What `counter` grew by between moments per growth of `base`; null where that did not grow. */
function rates(moments, counter, base) {
  return moments.map((moment, k) => {
    const before = k > 0 ? moments[k - 1] : null;
    const grown = (of) => of(moment) - (before === null ? 0 : of(before));
    return grown(base) > 0 ? grown(counter) / grown(base) : null;
  });
}

const programsOf = (moment) => moment.programs ?? Object.values(moment.programs_by_cause).reduce((sum, count) => sum + count, 0);
const writesOf = (moment) => moment.host_page_writes;

const ofRuns = (runs, ys) => runs.map((run) => ({ label: labelOf(run), xs: xsOf(momentsOf(run)), ys: ys(momentsOf(run)) }));

/** Charts with a line for each run. */
function compareRuns(place, runs) {
  const axes = axesOf(runs);
  const charts = [
    new Chart(place, {
      title: "Write amplification over time", unit: "programs per host page write", axes,
      series: ofRuns(runs, (moments) => rates(moments, programsOf, writesOf)),
    }),
    new Chart(place, {
      title: "Free blocks", unit: "blocks", axes, series: ofRuns(runs, (moments) => moments.map((moment) => moment.free_blocks)),
    }),
  ];
  for (const [field, name] of [["write_us", "Write"], ["read_us", "Read"]]) {
    if (!runs.some((run) => momentsOf(run).some((moment) => moment[field]))) continue;
    const hasMany = runs.every((run) => isKnown(momentsOf(run), field, PERCENTILES[1]));
    const [percentile, title] = hasMany ? [PERCENTILES[1], "99th percentile"] : [PERCENTILES[3], "largest"];
    charts.push(new Chart(place, {
      title: `${name} latency, ${title}`, note: "of the requests answered in each window, us", unit: "us", axes, log: true,
      series: ofRuns(runs, (moments) => latencies(moments, field, percentile)),
    }));
  }
  return charts;
}

/** Programs per host page write, by cause: the parts add up to write amplification. */
function programsByCause(windows) {
  const causes = Object.keys(CAUSES).filter((cause) => windows.some((moment) => moment.programs_by_cause[cause]));
  return causes.map((cause) => ({
    label: CAUSES[cause], xs: xsOf(windows), ys: rates(windows, (moment) => moment.programs_by_cause[cause] ?? 0, writesOf),
  }));
}

/** A percentile of each window that has enough requests for it. */
function latencies(moments, field, [name, , least]) {
  return moments.map((moment) => (moment[field]?.count >= least ? moment[field][name] || null : null));
}

/** Whether most windows with requests have a percentile. */
function isKnown(moments, field, percentile) {
  const known = (one) => latencies(moments, field, one).filter((us) => us !== null).length;
  return 2 * known(percentile) > known(PERCENTILES[3]);
}

/** The percentiles that are known. */
function percentilesOf(windows, field) {
  const known = PERCENTILES.filter((percentile) => isKnown(windows, field, percentile));
  return known.map((percentile) => ({ label: percentile[1], xs: xsOf(windows), ys: latencies(windows, field, percentile) }));
}

/** Charts of a timeline; all of them but those of the map have these axes. */
function showTimeline(place, timeline, axes) {
  const charts = [new Chart(place, {
    title: "Programs by cause over time", note: "page programs per page that the host wrote: the parts add up to write amplification",
    unit: "programs per host page write", axes, series: programsByCause(timeline.windows), form: "stacked",
  })];
  for (const [field, name] of [["write_us", "Write"], ["read_us", "Read"]]) {
    if (!timeline.windows.some((moment) => moment[field])) continue;
    charts.push(new Chart(place, {
      title: `${name} latency over time`, note: "of the requests answered in each window, us", unit: "us", axes, log: true,
      series: percentilesOf(timeline.windows, field),
    }));
  }
  const wear = new Chart(place, {
    title: "Wear of the blocks", note: "erases since the drive was new, at the moment of the map", unit: "blocks", axes: { erases: "erases" },
    series: wearSeries(timeline.frames[timeline.frames.length - 1]), form: "bars",
  });
  new BlocksOverTime(place, timeline, (frame) => wear.show(wearSeries(frame)));
  return charts;
}

/** The charts of runs on one input: a choice of the axis, all designs, one in detail. */
function showRuns(place, runs) {
  const compared = make("div", { class: "grid" });
  const axes = axesOf(runs);
  const detailed = runs.filter((run) => run.timeline).map((run) => ({ label: labelOf(run), timeline: run.timeline }));
  const charts = [];
  const setAxis = (number) => [...charts, ...ofDetail()].forEach((chart) => chart.setAxis(Object.keys(axes)[number]));
  const axis = choice("over ", Object.values(axes), setAxis);
  place.append(make("h3", { class: "part" }, "Over time"), make("div", { class: "bar" }, axis), compared);
  charts.push(...compareRuns(compared, runs));
  const ofDetail = showDetails(place, detailed, axes, () => setAxis(Number(axis.querySelector("select").value)));
}

/** One of these timelines in detail, with a choice where there are several; gives the charts of the one that is open. */
function showDetails(place, detailed, axes, onOpen) {
  if (detailed.length === 0) {
    place.append(make("p", { class: "facts" }, "No timeline was recorded: the setting replay.timeline_cells=4096 adds programs by cause, latencies, wear and a map of the blocks."));
    return () => [];
  }
  const detail = make("div", { class: "grid" });
  let charts = [];
  const open = (number) => {
    empty(detail);
    charts = showTimeline(detail, detailed[number].timeline, axes);
    onOpen();
  };
  const bar = make("div", { class: "bar" }, detailed.length > 1 ? choice("of ", detailed.map((one) => one.label), open) : null);
  place.append(make("h3", { class: "part" }, `In detail: ${detailed.length > 1 ? "one at a time" : detailed[0].label}`), bar, detail);
  charts = showTimeline(detail, detailed[0].timeline, axes);
  return () => charts;
}
