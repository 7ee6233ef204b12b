import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { createDispatchMetrics } from "./dispatch-metrics.ts";
import { sampleNames } from "./metric-spec.ts";
import { createMetrics } from "./names.ts";
import { PROCESS_METRICS } from "./process-metrics.ts";
import { MetricsRegistry, registerTable } from "./registry.ts";

const FOLDER = new URL("../../../deploy/grafana/", import.meta.url);
const FILES = readdirSync(FOLDER);

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly datasource?: { readonly uid: string };
  readonly targets?: readonly { readonly refId: string; readonly expr: string; readonly legendFormat: string }[];
}

interface Dashboard {
  readonly title: string;
  readonly uid: string;
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly query: string | { readonly query: string } }[];
  };
}

const boards = FILES.map(
  (file) => [file, JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")) as Dashboard] as const,
);

const registry = new MetricsRegistry();
createMetrics(registry);
createDispatchMetrics(registry);
registerTable(registry, PROCESS_METRICS);
/** Labels of each sample name: those of the tables, and `le` of buckets. */
const known = new Map<string, readonly string[]>();
for (const { name, type, labels } of registry.refresh())
  for (const sample of sampleNames(name, type))
    known.set(sample, sample.endsWith("_bucket") ? [...labels, "le"] : labels);

/** The variable of the data source as a panel refers to it. */
const CHOSEN = "$" + "{datasource}";
/** Put on every series by Prometheus itself. */
const SCRAPED = ["instance", "job"];

/** Metrics that an expression names: words of their kind that are no labels. */
const metricsIn = (query: string): string[] =>
  query.replace(/by \([^)]*\)|\{[^}]*\}/g, "").match(/\b(llm_d_|inference_|sluice_|process_|nodejs_)\w+/g) ?? [];

/** Queries of a dashboard, those of its variables too. */
function queriesOf({ panels, templating }: Dashboard): string[] {
  const variables = templating.list.map(({ query }) => (typeof query === "string" ? query : query.query));
  return [...panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)), ...variables];
}

/** What an expression says about labels, piece by piece: `metric{label="..."}`, and `by (...)` around a metric. */
function labelsUsed(query: string): [metric: string, labels: string[]][] {
  const used: [string, string[]][] = [];
  for (const [, metric, matchers] of query.matchAll(/(\w+)\{([^}]*)\}/g))
    used.push([metric!, [...matchers!.matchAll(/(\w+)\s*[=!]~?/g)].map(([, label]) => label!)]);
  for (const [, labels, rest] of query.matchAll(/by \(([^)]*)\) (.*)/g))
    for (const metric of metricsIn(rest!.slice(0, closing(rest!))))
      used.push([metric, labels!.split(",").map((label) => label.trim())]);
  for (const [, metric, label] of query.matchAll(/label_values\(([^,{]+)(?:\{[^}]*\})?, (\w+)\)/g))
    used.push([metric!, [label!]]);
  return used;
}

/** Where the parenthesis that opens a text closes again. */
function closing(text: string): number {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "(") depth++;
    if (text[i] === ")" && --depth === 0) return i + 1;
  }
  return text.length;
}

it("are there for the Endpoint Picker and the Async Processor", () => {
  expect(FILES.sort()).toEqual(["sluice-dispatch.json", "sluice-epp.json"]);
});

describe.each(boards)("%s", (_file, board) => {
  const queries = queriesOf(board);

  it("asks for metrics of the table, by labels they have", () => {
    const problems: string[] = [];
    for (const query of queries) {
      for (const metric of metricsIn(query)) if (!known.has(metric)) problems.push(`${metric} in ${query}`);
      for (const [metric, labels] of labelsUsed(query))
        for (const label of labels)
          if (!SCRAPED.includes(label) && !known.get(metric)?.includes(label))
            problems.push(`${metric}: ${label} in ${query}`);
    }
    expect(problems).toEqual([]);
    expect(queries.flatMap(labelsUsed).length).toBeGreaterThan(queries.length);
  });

  it("asks by variables that it has, and draws from the data source that is chosen", () => {
    const variables = board.templating.list.map(({ name }) => name);
    expect(variables[0]).toBe("datasource");
    for (const query of queries)
      for (const [, name] of query.matchAll(/\$\{?(\w+)/g))
        if (!name!.startsWith("__")) expect(variables, query).toContain(name);
    for (const panel of board.panels) if (panel.type !== "row") expect(panel.datasource?.uid).toBe(CHOSEN);
  });

  it("names by labels that its queries keep", () => {
    for (const { targets = [] } of board.panels)
      for (const { expr, legendFormat } of targets)
        for (const [, label] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
          const grouped = /by \(([^)]*)\)/.exec(expr);
          if (grouped !== null) expect(grouped[1]!.split(", "), expr).toContain(label);
          else expect(["instance"], expr).toContain(label);
        }
  });

  it("has panels that say what they show, and none on top of another", () => {
    const taken = new Set<string>();
    expect(new Set(board.panels.map(({ id }) => id)).size).toBe(board.panels.length);
    for (const { type, title, description, targets, gridPos } of board.panels) {
      if (type !== "row") expect([title, description, targets?.length].every(Boolean), title).toBe(true);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x},${y}`), title).toBe(false);
          taken.add(`${x},${y}`);
        }
    }
  });
});

it("uses the canonical names of the Endpoint Picker, not those that older releases had", () => {
  const [, board] = boards.find(([file]) => file === "sluice-epp.json")!;
  expect(queriesOf(board).filter((query) => /inference_(objective|model|pool|extension)_/.test(query))).toEqual([]);
});

it("alerts about dispatchers ask for metrics of the table, by labels they have", () => {
  const file = new URL("../../../deploy/helm/sluice-dispatch/alerts.yaml", import.meta.url);
  const { groups } = parse(readFileSync(file, "utf8")) as { groups: { rules: { alert: string; expr: string }[] }[] };
  const rules = groups.flatMap((group) => group.rules);
  expect(rules.length).toBeGreaterThan(9);
  for (const { alert, expr } of rules) {
    const metrics = metricsIn(expr);
    expect(metrics.length, alert).toBeGreaterThan(0);
    for (const metric of metrics) {
      expect(known.has(metric), `${alert}: ${metric}`).toBe(true);
      for (const [, labels] of expr.matchAll(/by \(([^)]*)\)/g))
        for (const label of labels!.split(", "))
          if (label !== "namespace") expect(known.get(metric), `${alert}: ${metric}`).toContain(label);
    }
    // The chart puts the labels of its release in the place of this one.
    expect(expr.match(/job=~"\.\+"/g)?.length, alert).toBe(metrics.length);
  }
});
