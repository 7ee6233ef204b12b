/**
 * Draws the plots of a report, in the browser. `report.ts` puts this file into the page as it stands, behind the file that it
 * imports: a report has no other file.
 * @import { default as UPlot, Options, Series } from "uplot"
 * @import { LoadPlot, Plot, RangePlot } from "./plots-data.ts"
 */
import { axes, colour, dash, dashWord, number, policyColour, zeroRange } from "./plot-style.js";

const { uPlot } = /** @type {{ uPlot: typeof UPlot }} */ (/** @type {unknown} */ (globalThis));

/** @type {readonly Plot[]} */
const PLOTS = JSON.parse(document.getElementById("plots")?.textContent ?? "[]");
const HEIGHT = 260;
/** Two of these stand beside each other on A4 and on letter paper. */
const PRINT_WIDTH = 330;

/**
 * A value with its unit and, where the seeds differ, their range.
 * @param {RangePlot["series"][number]} series @param {number} at @param {string} unit
 */
function told({ median, min, max }, at, unit) {
  const behind = unit === "" ? "" : ` ${unit}`;
  const range = min[at] === max[at] ? "" : ` (${number(min[at])} to ${number(max[at])})`;
  return median[at] == null ? "–" : `${number(median[at])}${behind}${range}`;
}

/**
 * What all plots have in common.
 * @param {Plot} plot @param {number} width @param {(series: number) => string} dashOf word of CSS for a series' line
 * @returns {Options}
 */
function common(plot, width, dashOf = () => "solid") {
  const log = plot.form !== "loads" && plot.log;
  const { x, y } = axes();
  /** Of a log scale the decades alone. @type {uPlot.Axis.Filter} */
  const filter = (_, splits) => splits.map((split) => (!log || Number.isInteger(Math.log10(split)) ? split : null));
  return {
    width,
    height: HEIGHT,
    series: [],
    scales: { x: { time: false } },
    axes: [
      { ...x, label: plot.xLabel },
      {
        ...y,
        ...{ grid: { ...y.grid, filter }, ticks: { ...y.ticks, filter }, filter },
        label: plot.yLabel,
        size: 66,
        values: (_, splits) => splits.map((split) => (split == null ? "" : number(split))),
      },
    ],
    cursor: { drag: { x: false, y: false } },
    legend: { markers: { width: 3, dash: (_, at) => dashOf(at) } },
  };
}

/**
 * Where the scale of a range plot begins and ends: whole decades, or zero and a little more than the most.
 * @param {boolean} log @returns {(plot: UPlot, min: number | null, max: number | null) => [number, number]}
 */
function scaleRange(log) {
  return (_, min, max) => {
    if (!log) return zeroRange(max);
    if (min == null || max == null) return [0.1, 1];
    const low = 10 ** Math.floor(Math.log10(min));
    return [low, Math.max(10 ** Math.ceil(Math.log10(max)), low * 10)];
  };
}

/** Medians as lines with points, the seeds as bands. @param {RangePlot} plot @param {number} width @param {HTMLElement} home */
function drawLines(plot, width, home) {
  /** @type {Series[]} */
  const series = [{ label: plot.xLabel, value: (_, at) => number(at ?? plot.x.at(-1)) }];
  /** @type {(number | null)[][]} */
  const data = [[...plot.x]];
  /** @type {uPlot.Band[]} */
  const bands = [];
  for (const one of plot.series) {
    const stroke = policyColour(one.policy);
    const edge = { class: "edge", stroke: "transparent", width: 0, points: { show: false } };
    bands.push({ series: [data.length + 2, data.length + 1], fill: `${stroke}2e` });
    series.push({
      ...{ label: one.name, stroke, width: 2, dash: dash(one.policy) },
      points: { show: true, size: 6, fill: stroke },
      // Without a cursor the legend tells of the highest rate.
      value: (_, __, ___, at) => told(one, at ?? plot.x.length - 1, plot.unit),
    });
    series.push(edge, edge);
    data.push([...one.median], [...one.min], [...one.max]);
  }
  const options = common(plot, width, (at) => dashWord((at - 1) / 3));
  const [first = 0, last = 1] = [plot.x[0], plot.x.at(-1)];
  const room = (last - first) * 0.04;
  return new uPlot(
    {
      ...options,
      series,
      bands,
      scales: {
        x: { time: false, range: () => [first - room, last + room] },
        y: { distr: plot.log ? 3 : 1, range: scaleRange(plot.log) },
      },
      cursor: { ...options.cursor, sync: { key: plot.together } },
      hooks: {
        // A median that is clicked away in the legend takes its band along.
        setSeries: [
          (drawn, at, { show }) => {
            if (at == null || show == null || at % 3 !== 1) return;
            for (const edge of [at + 1, at + 2]) drawn.setSeries(edge, { show }, false);
          },
        ],
      },
    },
    /** @type {uPlot.AlignedData} */ (data),
    home,
  );
}

/**
 * A bar per policy with a stroke from the least to the most of the seeds. On a log scale there is no zero for a bar to
 * stand on: a point is drawn instead.
 * @param {RangePlot} plot @param {number} width @param {HTMLElement} home
 */
function drawBars(plot, width, home) {
  const options = common(plot, width);
  const [x = {}, y = {}] = options.axes ?? [];
  const bars = uPlot.paths.bars?.({ size: [0.6, 70] });
  return new uPlot(
    {
      ...options,
      series: [
        { label: "policy", class: "edge" },
        ...plot.series.map(
          /** @returns {Series} */
          (one, i) => {
            const stroke = policyColour(one.policy);
            const form = plot.log
              ? { paths: () => null, points: { show: true, size: 10, fill: stroke } }
              : { fill: `${stroke}b0`, ...(bars && { paths: bars }), points: { show: false } };
            return { label: `${i + 1} ${one.name}`, stroke, width: 1, value: () => told(one, i, plot.unit), ...form };
          },
        ),
      ],
      scales: {
        x: { time: false, range: () => [0.4, plot.x.length + 0.6] },
        y: {
          distr: plot.log ? 3 : 1,
          range: (u, min, max) => {
            const most = plot.series.flatMap((one) => one.max.filter((value) => value != null));
            const least = plot.series.flatMap((one) => one.min.filter((value) => value != null));
            return scaleRange(plot.log)(
              u,
              least.length > 0 ? Math.min(...least) : min,
              most.length > 0 ? Math.max(...most) : max,
            );
          },
        },
      },
      axes: [{ ...x, grid: { show: false }, splits: () => [...plot.x] }, y],
      cursor: { ...options.cursor, x: false, y: false, points: { show: false } },
      hooks: {
        draw: [
          (drawn) => {
            const { ctx } = drawn;
            ctx.save();
            ctx.strokeStyle = colour("--ink");
            ctx.lineWidth = 2 * devicePixelRatio;
            plot.series.forEach(({ min, max }, i) => {
              const [least, most] = [min[i], max[i]];
              if (least == null || most == null || !drawn.series[i + 1]?.show) return;
              const middle = drawn.valToPos(i + 1, "x", true);
              ctx.beginPath();
              ctx.moveTo(middle, drawn.valToPos(least, "y", true));
              ctx.lineTo(middle, drawn.valToPos(most, "y", true));
              ctx.stroke();
            });
            ctx.restore();
          },
        ],
      },
    },
    /** @type {uPlot.AlignedData} */ ([[...plot.x], ...plot.series.map(({ median }) => [...median])]),
    home,
  );
}

/** A thin line per server; the legend tells the busiest, the idlest and the mean. @param {LoadPlot} plot @param {number} width @param {HTMLElement} home */
function drawLoads(plot, width, home) {
  const options = common(plot, width);
  const stroke = policyColour(plot.policy);
  const means = plot.x.map(
    (_, at) => plot.servers.reduce((sum, loads) => sum + (loads[at] ?? 0), 0) / plot.servers.length,
  );
  const peak = means.indexOf(Math.max(...means));
  /** @param {number} at @param {(...loads: number[]) => number} pick */
  const extreme = (at, pick) => {
    const loads = plot.servers.map((server) => server[at] ?? 0);
    const load = pick(...loads);
    return `${number(load)} (server ${loads.indexOf(load) + 1})`;
  };
  return new uPlot(
    {
      ...options,
      series: [
        { label: "at", value: (_, at) => `${number(at ?? plot.x[peak])} s` },
        ...plot.servers.map(() => ({ class: "edge", stroke: `${stroke}99`, width: 1, points: { show: false } })),
        {
          ...{ label: "mean", stroke: colour("--ink"), width: 2, points: { show: false } },
          // Without a cursor the legend tells of the moment with the most requests.
          value: (_, __, ___, at) => {
            const when = at ?? peak;
            return `${number(means[when])}, busiest ${extreme(when, Math.max)}, idlest ${extreme(when, Math.min)}`;
          },
        },
      ],
      scales: { x: { time: false, range: () => [0, plot.end] }, y: { range: () => [0, plot.top * 1.05] } },
    },
    /** @type {uPlot.AlignedData} */ ([[...plot.x], ...plot.servers.map((loads) => [...loads]), means]),
    home,
  );
}

/** @type {Map<HTMLElement, UPlot>} */
const drawn = new Map();

/** @param {HTMLElement} home @param {number} width */
function draw(home, width) {
  const plot = PLOTS[Number(home.dataset["plot"])];
  if (plot === undefined || width < 1) return;
  drawn.get(home)?.destroy();
  const by =
    plot.form === "loads"
      ? drawLoads(plot, width, home)
      : plot.form === "lines"
        ? drawLines(plot, width, home)
        : drawBars(plot, width, home);
  drawn.set(home, by);
}

const homes = [...document.querySelectorAll("[data-plot]")].filter((element) => element instanceof HTMLElement);
const drawAll = (/** @type {number | undefined} */ width = undefined) => {
  for (const home of homes) draw(home, width ?? home.clientWidth);
};

// Colours are read when a plot is drawn: another scheme, or paper, is another drawing.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
addEventListener("beforeprint", () => {
  document.documentElement.classList.add("paper");
  for (const details of document.querySelectorAll("details")) details.open = true;
  drawAll(PRINT_WIDTH);
});
addEventListener("afterprint", () => {
  document.documentElement.classList.remove("paper");
  drawAll();
});
const resized = new ResizeObserver((entries) => {
  if (document.documentElement.classList.contains("paper")) return;
  for (const { target, contentRect } of entries) {
    const width = Math.floor(contentRect.width);
    if (!(target instanceof HTMLElement)) continue;
    const plot = drawn.get(target);
    if (plot === undefined) draw(target, width);
    else if (plot.width !== width && width > 0) plot.setSize({ width, height: HEIGHT });
  }
});
for (const home of homes) resized.observe(home);
