import { describe, expect, it } from "vitest";
import { formatNumber, render } from "./exposition.ts";
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
});
