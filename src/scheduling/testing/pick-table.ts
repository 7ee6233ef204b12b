import type { Pick } from "./pick.ts";

/** A decision for people, endpoints in order of preference, those that were left out last. */
export function pickTable({ record, order, scores, totals, droppedBy }: Pick): string {
  const scorers = record.scorers.map(({ name, weight }) => ({ name, title: `${name} x ${weight}` }));
  const head = ["", "endpoint", ...scorers.map(({ title }) => title), "total"];
  const scored = [...new Set([...order, ...Object.keys(totals)])];
  const rows = scored.map((name, at) => [
    order.includes(name) ? String(at + 1) : "",
    name,
    ...scorers.map((scorer) => figure(scores[scorer.name]?.[name])),
    figure(totals[name]),
  ]);
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]!.length)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, at) => (at === 1 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!)))
      .join("  ")
      .trimEnd();
  const dropped = Object.entries(droppedBy).map(([name, plugin]) => `   ${name}: left out by ${plugin}`);
  return [line(head), ...rows.map(line), ...dropped].join("\n");
}

function figure(value: number | undefined): string {
  return value === undefined ? "-" : String(Number(value.toFixed(4)));
}
