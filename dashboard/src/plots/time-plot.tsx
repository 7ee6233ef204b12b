import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { axes, colour, policyColour, zeroRange } from "../../../src/lab/study/report/plot-style.js";
import type { EventEntry } from "../../../src/wires/admin/feed/overview.ts";
import { timeOfDay } from "../format.ts";
import { followScheme, schemeNow } from "../scheme.ts";
import { bridged } from "./bridge.ts";
import { DrawQueue } from "./draw-queue.ts";
import { toneOf } from "./event-tone.ts";

/** A line of a plot. */
export interface Line {
  readonly label: string;
  /** 0 to 7 of the palette. */
  readonly colour: number;
  /** As many as the seconds. */
  readonly values: readonly (number | null)[];
}

export interface TimePlotProps {
  readonly title: string;
  /** Unix seconds, ascending. */
  readonly seconds: readonly number[];
  readonly lines: readonly Line[];
  /** Seconds from the left to the right end. */
  readonly window: number;
  /** A value with its unit. */
  readonly say: (value: number | null | undefined) => string;
  readonly events?: readonly EventEntry[];
  /** The top of the scale, at least. */
  readonly top?: number;
  readonly low?: boolean;
  /** Counts the changes of the data. */
  readonly version: number;
  readonly empty?: string;
}

const QUEUE = new DrawQueue((draw) => requestAnimationFrame(draw));

/** Figures over time, with the newest values, or those under the cursor, in the legend. */
export function TimePlot(props: TimePlotProps) {
  const { title, lines, say, low = false, empty } = props;
  const home = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const [scheme, setScheme] = useState(schemeNow);
  const [cursor, setCursor] = useState<number | null>(null);
  const shape = JSON.stringify([lines.map(({ label, colour: at }) => [label, at]), low, scheme]);

  useEffect(() => followScheme(() => setScheme(schemeNow())), []);
  const draw = useRef<() => void>(() => undefined);
  useLayoutEffect(() => {
    const element = home.current;
    if (element === null || shape === "") return undefined;
    let plot: uPlot | undefined;
    const mine = (): void => {
      const { clientWidth: width, clientHeight: height } = element;
      plot ??= new uPlot(optionsOf(latest, element, setCursor), [[]], element);
      if (width > 0 && (width !== plot.width || height !== plot.height)) plot.setSize({ width, height });
      plot.setData(dataOf(latest.current));
    };
    draw.current = mine;
    // Paper does not wait for a frame.
    if (scheme === "paper") mine();
    else QUEUE.add(mine);
    const resized = new ResizeObserver(() => QUEUE.add(mine));
    resized.observe(element);
    return () => {
      resized.disconnect();
      QUEUE.remove(mine);
      plot?.destroy();
    };
  }, [shape]);
  useLayoutEffect(
    () => QUEUE.add(draw.current),
    [props.version, props.window, props.seconds.length, props.seconds.at(-1), props.events],
  );

  const hasData = lines.some(({ values }) => values.some((value) => value !== null));
  const first = Math.max(0, props.seconds.length - props.window);
  const at = cursor === null ? undefined : first + cursor;
  return (
    <figure class="plot-box">
      <figcaption>
        <h2>{title}</h2>
        <ul class="legend">
          {at !== undefined && <li>{timeOfDay((props.seconds[at] ?? 0) * 1000)}</li>}
          {lines.map((line) => (
            <li key={line.label}>
              <span class={`swatch c${line.colour}`} aria-hidden="true" />
              {line.label} <b>{say(at === undefined ? newest(line.values) : line.values[at])}</b>
            </li>
          ))}
        </ul>
      </figcaption>
      <div
        class={low ? "plot low" : "plot"}
        ref={home}
        role="img"
        aria-label={`${title} over time; the legend has the newest values`}
      />
      {!hasData && empty !== undefined && <p class="note plot-empty">{empty}</p>}
    </figure>
  );
}

/** The newest value of the last seconds: a second without an observation does not hide the one before. */
function newest(values: readonly (number | null)[]): number | null {
  for (let at = values.length - 1; at >= Math.max(0, values.length - 5); at--)
    if (values[at] != null) return values[at]!;
  return null;
}

function dataOf({ seconds, lines, window }: TimePlotProps): uPlot.AlignedData {
  const first = Math.max(0, seconds.length - window);
  return [seconds.slice(first), ...lines.map(({ values }) => bridged(values.slice(first)))] as uPlot.AlignedData;
}

function optionsOf(
  latest: { readonly current: TimePlotProps },
  element: HTMLElement,
  onCursor: (at: number | null) => void,
): uPlot.Options {
  const { x, y } = axes();
  const { lines } = latest.current;
  return {
    width: Math.max(1, element.clientWidth),
    height: element.clientHeight,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, sync: { key: "page" }, points: { size: 6 } },
    scales: {
      x: { time: true, range: () => rangeOf(latest.current) },
      y: { range: (_, __, max) => zeroRange(Math.max(max ?? 0, latest.current.top ?? 0)) },
    },
    axes: [
      {
        ...x,
        size: 22,
        font: "11px system-ui, sans-serif",
        ticks: { show: false },
        // In short windows the labels have seconds.
        space: () => (latest.current.window < 300 ? 58 : 38),
        values: (_, splits) => splits.map((at) => axisTime(at, latest.current.window)),
      },
      {
        ...y,
        size: 58,
        font: "11px system-ui, sans-serif",
        ticks: { show: false },
        space: 34,
        values: (_, splits) => splits.map((at) => latest.current.say(at)),
      },
    ],
    series: [
      {},
      ...lines.map(
        (line): uPlot.Series => ({
          label: line.label,
          stroke: policyColour(line.colour),
          width: 1.5,
          points: { show: false },
        }),
      ),
    ],
    hooks: {
      setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)],
      draw: [(plot) => drawEvents(plot, latest.current.events ?? [])],
    },
  };
}

/** The right end is the newest second. */
function rangeOf({ seconds, window }: TimePlotProps): [number, number] {
  const end = seconds.at(-1) ?? Math.floor(Date.now() / 1000);
  const first = seconds.at(-Math.min(window, seconds.length)) ?? end;
  return [Math.min(first, end - window), end];
}

function axisTime(at: number, window: number): string {
  const date = new Date(at * 1000);
  if (window <= 900) return timeOfDay(at * 1000).replace(/:00$/, "");
  if (window <= 86_400) return timeOfDay(at * 1000).slice(0, 5);
  return `${date.getDate()} ${date.toLocaleString("en-GB", { month: "short" })}`;
}

/** A line through the plot at each moment at which something happened. */
function drawEvents(plot: uPlot, events: readonly EventEntry[]): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const event of events) {
    const at = Math.round(plot.valToPos(event.at / 1000, "x", true)) + 0.5;
    if (at < bbox.left || at > bbox.left + bbox.width) continue;
    ctx.strokeStyle = colour(`--${toneOf(event.kind)}`);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
