import type { FigureName } from "../../../src/wires/admin/feed/overview.ts";
import type { Store } from "../feed/store.ts";
import { TimePlot, type TimePlotProps } from "./time-plot.tsx";

/** A figure of the stream, the label of its line, and its colour of the palette. */
export type FigureLine = readonly [FigureName, string, number];

interface FigurePlotProps extends Pick<TimePlotProps, "title" | "say" | "window" | "top"> {
  readonly store: Store;
  readonly lines: readonly FigureLine[];
}

/** The lines of a span whose quantiles the process reports. */
export const quantileLines = (of: "ttft" | "duration" | "queued" | "latency"): readonly FigureLine[] => [
  [`${of}.p50`, "p50", 0],
  [`${of}.p90`, "p90", 4],
  [`${of}.p99`, "p99", 1],
];

/** Figures of the stream over time, with the events. A figure that the process does not have is an empty line. */
export function FigurePlot({ store: { series, events }, lines, ...plot }: FigurePlotProps) {
  return (
    <TimePlot
      {...plot}
      {...{ seconds: series.seconds, version: series.version, events }}
      lines={lines.map(([name, label, colour]) => ({ label, colour, values: series.values(name) ?? [] }))}
    />
  );
}
