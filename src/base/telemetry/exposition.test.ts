import { describe, expect, it } from "vitest";
import { formatNumber, joinPages, negotiateFormat, render } from "./exposition.ts";
import { createMetrics } from "./names.ts";
import { MetricsRegistry } from "./registry.ts";

describe("render", () => {
  it("writes HELP and TYPE once per family, escaped, and ends with a newline", () => {
    const registry = new MetricsRegistry();
    registry.gauge({ name: "g", help: 'a "b" \\ c\nd' }).with().set(Number.NaN);
    expect(render(registry)).toBe('# HELP g a "b" \\\\ c\\nd\n# TYPE g gauge\ng NaN\n');
  });

  it("escapes label values", () => {
    const registry = new MetricsRegistry();
    registry
      .gauge({ name: "g", help: "g", labels: ["a"] })
      .with('x"\\\ny{},=')
      .set(1);
    expect(render(registry)).toContain('g{a="x\\"\\\\\\ny{},="} 1\n');
  });

  it("leaves out a labelled family and its twins while they have no series", () => {
    const registry = new MetricsRegistry();
    registry.counter({ name: "c", help: "c", labels: ["a"], twins: [{ name: "old_c" }] });
    expect(render(registry)).toBe("");
  });

  it("prints numbers as Go does, since dashboards match on the text of `le`", () => {
    const cases: readonly (readonly [number, string])[] = [
      [0, "0"],
      [-0, "-0"],
      [0.0001, "0.0001"],
      [0.00005, "5e-05"],
      [32778, "32778"],
      [999999, "999999"],
      [1048576, "1.048576e+06"],
      [1073741824, "1.073741824e+09"],
      [-2.5e6, "-2.5e+06"],
      [1e21, "1e+21"],
      [1e-300, "1e-300"],
      [Number.POSITIVE_INFINITY, "+Inf"],
      [Number.NEGATIVE_INFINITY, "-Inf"],
      [Number.NaN, "NaN"],
    ];
    for (const [value, text] of cases) expect(formatNumber(value)).toBe(text);
  });

  it("writes OpenMetrics: counters without their suffix in the family's name, quotes escaped, an end", () => {
    const registry = new MetricsRegistry();
    registry
      .counter({ name: "c_total", help: 'a "c"', twins: [{ name: "old_c" }] })
      .with()
      .inc(3);
    registry.gauge({ name: "g", help: "g" }).with().set(1);
    const histogram = registry.histogram({ name: "h", help: "h", buckets: [1] });
    histogram.with().observe(0.5);
    expect(render(registry, "openmetrics").split("\n")).toEqual([
      '# HELP c a \\"c\\"',
      "# TYPE c counter",
      "c_total 3",
      '# HELP old_c a \\"c\\"',
      "# TYPE old_c unknown",
      "old_c 3",
      "# HELP g g",
      "# TYPE g gauge",
      "g 1",
      "# HELP h h",
      "# TYPE h histogram",
      'h_bucket{le="1"} 1',
      'h_bucket{le="+Inf"} 1',
      "h_sum 0.5",
      "h_count 1",
      "# EOF",
      "",
    ]);
  });

  it("gives every metric of ours a family name of its own in OpenMetrics, and the samples of the other format", () => {
    const registry = new MetricsRegistry();
    for (const family of Object.values(createMetrics(registry)))
      (family.with as (...labels: string[]) => unknown).apply(
        family,
        family.labels.map(() => "x"),
      );
    const page = render(registry, "openmetrics");
    const families = [...page.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name);
    expect(families.length).toBeGreaterThan(60);
    expect(new Set(families).size).toBe(families.length);
    const samples = (text: string) => text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    expect(samples(page)).toEqual(samples(render(registry)));
  });
});

describe("joinPages", () => {
  it("makes one page of two, with one end in OpenMetrics", () => {
    const [first, second] = [new MetricsRegistry(), new MetricsRegistry()];
    first.gauge({ name: "a", help: "a" }).with().set(1);
    second.gauge({ name: "b", help: "b" }).with().set(2);
    for (const format of ["text", "openmetrics"] as const) {
      const joined = joinPages(render(first, format), render(second, format));
      const end = format === "openmetrics" ? "# EOF\n" : "";
      expect(joined).toBe(`# HELP a a\n# TYPE a gauge\na 1\n# HELP b b\n# TYPE b gauge\nb 2\n${end}`);
      expect(joinPages(render(first, format), "")).toBe(render(first, format));
    }
  });
});

describe("negotiateFormat", () => {
  it.each([
    [undefined, "text"],
    ["", "text"],
    ["*/*", "text"],
    ["text/html", "text"],
    ["application/openmetrics-text", "openmetrics"],
    ["application/openmetrics-text; version=1.0.0; charset=utf-8", "openmetrics"],
    ["Application/OpenMetrics-Text;Version=0.0.1", "openmetrics"],
    ["application/openmetrics-text;version=2.0.0", "text"],
    ["application/openmetrics-text;q=0", "text"],
    ["text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4", "text"],
    // As Prometheus asks by default.
    [
      "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
      "openmetrics",
    ],
    ["text/plain, application/openmetrics-text", "text"],
    ["*/*;q=0.1,application/openmetrics-text;q=0.05", "text"],
    [`${",".repeat(100)}application/openmetrics-text`, "text"],
    [";;,,q=,application/openmetrics-text;q=much", "openmetrics"],
  ])("answers %j with %s", (accept, format) => {
    expect(negotiateFormat(accept)).toBe(format);
  });
});
