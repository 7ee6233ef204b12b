import { describe, expect, it } from "vitest";
import { render } from "./exposition.ts";
import { MetricsRegistry } from "./registry.ts";

function lines(registry: MetricsRegistry): string[] {
  return render(registry)
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
}

describe("MetricsRegistry", () => {
  it("counts, and never lets a counter fall", () => {
    const registry = new MetricsRegistry();
    const counter = registry.counter({ name: "c_total", help: "c", labels: ["a", "b"] });
    counter.with("x", "").inc();
    counter.with("x", "").inc(2.5);
    counter.with("x", "").inc(-7);
    counter.with("x", "").inc(Number.NaN);
    counter.with("x", "").inc(Number.POSITIVE_INFINITY);
    expect(counter.with("x", "")).toBe(counter.with("x", ""));
    expect(counter.with("x", "").value).toBe(3.5);
    expect(lines(registry)).toEqual(['c_total{a="x",b=""} 3.5']);
  });

  it("sets, raises and lowers gauges; a family without labels shows from the start", () => {
    const registry = new MetricsRegistry();
    const gauge = registry.gauge({ name: "g", help: "g" });
    expect(lines(registry)).toEqual(["g 0"]);
    gauge.with().set(5);
    gauge.with().inc();
    gauge.with().dec(4);
    expect(lines(registry)).toEqual(["g 2"]);
  });

  it("puts an observation on a bound into the bucket of that bound, and ignores what is not finite", () => {
    const registry = new MetricsRegistry();
    const histogram = registry.histogram({ name: "h", help: "h", buckets: [1, 2] });
    for (const value of [0.5, 1, 1.5, 2, 2.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
      histogram.with().observe(value);
    expect(lines(registry)).toEqual([
      'h_bucket{le="1"} 2',
      'h_bucket{le="2"} 4',
      'h_bucket{le="+Inf"} 5',
      "h_sum 7.5",
      "h_count 5",
    ]);
    expect([histogram.with().count, histogram.with().sum]).toEqual([5, 7.5]);
  });

  it("adds up under a twin's name the series whose remaining labels are equal, for every type", () => {
    const registry = new MetricsRegistry();
    const labels = ["model", "pod"] as const;
    const counter = registry.counter({
      name: "c",
      help: "c",
      labels,
      twins: [{ name: "old_c", labels: ["model"], help: "old" }, { name: "older_c" }],
    });
    const gauge = registry.gauge({
      name: "g",
      help: "g",
      labels,
      twins: [{ name: "old_g", labels: ["model", { label: "endpoint", from: "pod" }] }],
    });
    const histogram = registry.histogram({
      name: "h",
      help: "h",
      labels,
      buckets: [1],
      twins: [{ name: "old_h", labels: [] }],
    });
    expect(lines(registry), "a twin without labels shows from the start").toEqual([
      'old_h_bucket{le="1"} 0',
      'old_h_bucket{le="+Inf"} 0',
      "old_h_sum 0",
      "old_h_count 0",
    ]);
    counter.with("m", "p").inc(1);
    counter.with("m", "q").inc(2);
    counter.with("n", "p").inc(4);
    gauge.with("m", "p").set(8);
    histogram.with("m", "p").observe(1);
    histogram.with("n", "q").observe(3);
    const page = lines(registry);
    expect(page.filter((line) => line.startsWith("old"))).toEqual([
      'old_c{model="m"} 3',
      'old_c{model="n"} 4',
      'older_c{model="m",pod="p"} 1',
      'older_c{model="m",pod="q"} 2',
      'older_c{model="n",pod="p"} 4',
      'old_g{model="m",endpoint="p"} 8',
      'old_h_bucket{le="1"} 1',
      'old_h_bucket{le="+Inf"} 2',
      "old_h_sum 4",
      "old_h_count 2",
    ]);
    expect(render(registry)).toContain("# HELP old_c old\n");
  });

  it("folds label sets beyond maxSeries into one whose values are all `other` (bound)", () => {
    const registry = new MetricsRegistry();
    const counter = registry.counter({ name: "c", help: "c", labels: ["model", "pod"], maxSeries: 3 });
    for (let i = 0; i < 10_000; i++) counter.with(`m${i}`, "p").inc();
    expect(counter.size).toBe(4);
    expect(counter.with("never seen", "q")).toBe(counter.with("other", "other"));
    counter.with("m1", "p").inc();
    expect(lines(registry)).toEqual([
      'c{model="m0",pod="p"} 1',
      'c{model="m1",pod="p"} 2',
      'c{model="m2",pod="p"} 1',
      'c{model="other",pod="other"} 9997',
    ]);
  });

  it("keeps one series for `other` when a caller made it before the family was full", () => {
    const registry = new MetricsRegistry();
    const counter = registry.counter({ name: "c", help: "c", labels: ["model"], maxSeries: 1 });
    counter.with("other").inc();
    counter.with("b").inc();
    expect(lines(registry)).toEqual(['c{model="other"} 2']);
  });

  it("keeps 1,000 series unless told otherwise (bound)", () => {
    const family = new MetricsRegistry().gauge({ name: "g", help: "g", labels: ["a"] });
    for (let i = 0; i < 1500; i++) family.with(String(i)).set(i);
    expect(family.size).toBe(1001);
    expect(family.with("999").value).toBe(999);
    expect(family.with("other").value).toBe(1499);
  });

  it("tells label sets apart whatever characters they hold", () => {
    const family = new MetricsRegistry().counter({ name: "c", help: "c", labels: ["a", "b"] });
    family.with("x\u0000", "y").inc();
    expect(family.with("x", "\u0000y").value).toBe(0);
    expect(family.with("x,y", "").value).toBe(0);
    expect(family.with("__proto__", "constructor").value).toBe(0);
  });

  it("removes gauges; a child kept from before changes nothing any more", () => {
    const registry = new MetricsRegistry();
    const gauge = registry.gauge({ name: "g", help: "g", labels: ["pool", "pod"], maxSeries: 2 });
    const gone = gauge.with("p", "a");
    gone.set(1);
    gauge.with("p", "b").set(2);
    gauge.remove("p", "a");
    gauge.remove("p", "never there");
    gauge.remove("nowhere", "never there");
    gauge.with("q", "c").set(3);
    gone.set(99);
    gone.inc();
    expect(lines(registry)).toEqual(['g{pool="p",pod="b"} 2', 'g{pool="q",pod="c"} 3']);
    gauge.remove("p", "b");
    expect(gauge.with("p", "a").value, "a slot used again starts at 0").toBe(0);
    gauge.clear();
    expect(lines(registry)).toEqual([]);
    gauge.with("p", "b").inc();
    expect(lines(registry)).toEqual(['g{pool="p",pod="b"} 1']);
  });

  it("stays small while series come and go", () => {
    const gauge = new MetricsRegistry().gauge({ name: "g", help: "g", labels: ["pod", "x"], maxSeries: 4 });
    for (let i = 0; i < 10_000; i++) {
      gauge.with(`pod-${i}`, "x").set(i);
      gauge.remove(`pod-${i}`, "x");
    }
    expect(gauge.size).toBe(0);
    expect(gauge.cells.values.length).toBe(8);
  });

  it("leaves the only series of a family without labels in place", () => {
    const registry = new MetricsRegistry();
    const gauge = registry.gauge({ name: "g", help: "g" });
    gauge.remove();
    gauge.clear();
    gauge.with().set(1);
    expect(lines(registry)).toEqual(["g 1"]);
  });

  it("asks owners to refresh before each rendering, and survives one that throws", () => {
    const errors: unknown[] = [];
    const registry = new MetricsRegistry({ onRenderError: (error) => errors.push(error) });
    const gauge = registry.gauge({ name: "g", help: "g" });
    const broken = new Error("broken");
    const stopBroken = registry.onRender(() => {
      throw broken;
    });
    const stop = registry.onRender(() => gauge.with().inc());
    expect(lines(registry)).toEqual(["g 1"]);
    expect(errors).toEqual([broken]);
    stopBroken();
    stop();
    expect(lines(registry)).toEqual(["g 1"]);
    expect(errors.length).toBe(1);
  });

  it("refuses a name that is in use, as a family, a twin or a part of a histogram", () => {
    const registry = new MetricsRegistry();
    registry.histogram({ name: "h", help: "h", buckets: [], twins: [{ name: "old_h" }] });
    const duplicate = /^metric ".+": the name ".+" is already registered$/;
    expect(() => registry.counter({ name: "h", help: "" })).toThrow(duplicate);
    expect(() => registry.counter({ name: "old_h", help: "" })).toThrow(duplicate);
    expect(() => registry.counter({ name: "h_count", help: "" })).toThrow(duplicate);
    expect(() => registry.counter({ name: "free", help: "", twins: [{ name: "h_sum" }] })).toThrow(duplicate);
    expect(() => registry.counter({ name: "twice", help: "", twins: [{ name: "twice" }] })).toThrow(duplicate);
    expect(() => registry.counter({ name: "free", help: "" }), "a refusal takes no name").not.toThrow();
  });

  it("refuses what the text format cannot carry, naming the metric", () => {
    const registry = new MetricsRegistry();
    const invalid = expect.objectContaining({
      code: "METRIC_SPEC",
      message: expect.not.stringContaining("registered"),
    });
    expect(() => registry.counter({ name: "9c", help: "" })).toThrow(invalid);
    expect(() => registry.counter({ name: "c-d", help: "" })).toThrow('metric "c-d"');
    expect(() => registry.counter({ name: "c", help: "", labels: ["a:b"] })).toThrow(invalid);
    expect(() => registry.counter({ name: "c", help: "", labels: ["__a"] })).toThrow(invalid);
    expect(() => registry.counter({ name: "c", help: "", labels: ["a", "a"] })).toThrow(invalid);
    expect(() => registry.counter({ name: "c", help: "", maxSeries: 0 })).toThrow(invalid);
    expect(() => registry.counter({ name: "c", help: "", twins: [{ name: "d", labels: ["a"] }] })).toThrow(invalid);
    expect(() => registry.histogram({ name: "h", help: "", labels: ["le"], buckets: [1] })).toThrow(invalid);
    expect(() => registry.histogram({ name: "h", help: "", buckets: [2, 1] })).toThrow(invalid);
    expect(() => registry.histogram({ name: "h", help: "", buckets: [Number.POSITIVE_INFINITY] })).toThrow(invalid);
    expect(lines(registry)).toEqual([]);
  });

  it("refuses a wrong number of label values", () => {
    const wrong = expect.objectContaining({ code: "METRIC_SPEC", message: expect.stringContaining("label values") });
    const family = new MetricsRegistry().counter<readonly string[]>({ name: "c", help: "c", labels: ["a", "b"] });
    expect(() => family.with("only one")).toThrow(wrong);
    expect(() => family.with("a", "b", "c")).toThrow(wrong);
    family.with("a", "b").inc();
    expect(() => family.with("a", "b", "c")).toThrow(wrong);
    expect(() => family.with("a")).toThrow(wrong);
    const bare = new MetricsRegistry().counter<readonly string[]>({ name: "c", help: "c" });
    expect(() => bare.with("a")).toThrow(wrong);
  });
});
