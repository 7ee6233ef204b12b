import fc from "fast-check";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { describe, expect, it } from "vitest";
import { slowRead } from "../../../test/support/slow-exposition.ts";
import { render } from "./exposition.ts";
import { ExpositionReader } from "./exposition-reader.ts";
import { MetricsRegistry } from "./registry.ts";

const BUCKETS = [0.005, 0.1, 1, 32778, 1048576];
const value = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(...BUCKETS, 0, 1, -1),
  fc.integer({ min: -10, max: 10 }),
);
const label = fc.string({ unit: fc.constantFrom("a", "b", '"', "\\", "\n", " ", "é", "}"), maxLength: 3 });
const anyText = fc.string({
  unit: fc.constantFrom("a", "{", "}", ",", "=", "#", " ", "\t", "\r", "\n", "\\", '"', "\u0000", "\u007f", "é", "😀"),
});
const observation = fc.record({
  family: fc.constantFrom("counter", "gauge", "dec", "histogram", "plain"),
  labels: fc.tuple(label, label),
  value,
});

/** Samples as name and sorted labels -> value, and the type of every sample that is not part of a histogram. */
function content(page: string): Map<string, { value: number; type: string }> {
  const samples = slowRead(Buffer.from(page)).flatMap((line) => (line.sample === undefined ? [] : [line.sample]));
  return new Map(
    samples.map((sample) => {
      // Both libraries mean the same bucket by 1048576 and 1.048576e+06.
      const { le, ...rest } = sample.labels;
      const bound = le === undefined || le === "+Inf" ? le : Number(le);
      const key = JSON.stringify([sample.name, bound, Object.entries(rest).sort()]);
      // prom-client prints -0 as 0.
      return [key, { value: sample.value + 0, type: sample.type }];
    }),
  );
}

describe("render against prom-client", () => {
  it("shows the same samples and types after the same observations", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(observation, { maxLength: 30 }), async (observations) => {
        const ours = new MetricsRegistry();
        const labels = ["first", "second"] as const;
        const counter = ours.counter({ name: "c_total", help: "c", labels });
        const gauge = ours.gauge({ name: "g", help: "g", labels });
        const histogram = ours.histogram({ name: "h", help: "h", labels, buckets: BUCKETS });
        const plain = ours.histogram({ name: "p", help: "p", buckets: BUCKETS });

        const theirs = new Registry();
        const common = { labelNames: labels, registers: [theirs] };
        const theirCounter = new Counter({ name: "c_total", help: "c", ...common });
        const theirGauge = new Gauge({ name: "g", help: "g", ...common });
        const theirHistogram = new Histogram({ name: "h", help: "h", buckets: BUCKETS, ...common });
        const theirPlain = new Histogram({ name: "p", help: "p", buckets: BUCKETS, registers: [theirs] });

        for (const { family, labels: values, value: n } of observations) {
          if (family === "counter") {
            counter.with(...values).inc(Math.abs(n));
            theirCounter.labels(...values).inc(Math.abs(n));
          } else if (family === "gauge") {
            gauge.with(...values).set(n);
            theirGauge.labels(...values).set(n);
          } else if (family === "dec") {
            gauge.with(...values).dec(n);
            theirGauge.labels(...values).dec(n);
          } else if (family === "histogram") {
            histogram.with(...values).observe(n);
            theirHistogram.labels(...values).observe(n);
          } else {
            plain.with().observe(n);
            theirPlain.observe(n);
          }
        }
        expect(content(render(ours))).toEqual(content(await theirs.metrics()));
      }),
      { numRuns: 300 },
    );
  });

  it("writes what the reader reads back, label by label", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(anyText, fc.double()), { maxLength: 10 }), (series) => {
        const registry = new MetricsRegistry();
        const gauge = registry.gauge({ name: "some_gauge", help: "some_gauge 1\nsome_gauge 2", labels: ["label"] });
        const expected = new Map<string, number>();
        for (const [text, n] of series) {
          gauge.with(text).set(n);
          expected.set(text, n);
        }
        const page = Buffer.from(render(registry));
        const reader = new ExpositionReader(["some_gauge"]);
        const seen = new Map<string, number>();
        reader.read(page, page.length, (sample) => seen.set(sample.labels.get("label")!, sample.value));
        expect(seen).toEqual(expected);
        expect(reader.malformed).toBe(0);
      }),
    );
  });
});
