import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ExpositionReader, type ExpositionSample } from "../../../base/telemetry/exposition-reader.ts";
import { PageLayout } from "./page-layout.ts";

const NAMES = ["m:a", "m:b", "m:c"];
const reader = new ExpositionReader(NAMES);

/** Collects what it is told, per name. */
class Collected {
  readonly samples: string[][] = NAMES.map(() => []);

  reset(index: number): void {
    this.samples[index] = [];
  }

  add(sample: ExpositionSample): void {
    const labels = [...sample.labels.toMap()].map(([key, value]) => `${key}=${value}`);
    this.samples[sample.index]!.push(`${labels} ${sample.type} ${sample.value}`);
  }
}

function whole(page: Buffer): string[][] {
  const collected = new Collected();
  reader.read(page, page.length, (sample) => collected.add(sample));
  return collected.samples;
}

function filler(lines: number): string {
  return `# HELP f x\n# TYPE f counter\n${'f{path="/metrics"} 12345\n'.repeat(lines)}`;
}

function family(name: string, values: readonly number[], help = true): string {
  const head = `${help ? `# HELP ${name} text\n` : ""}# TYPE ${name} gauge\n`;
  return head + values.map((value, i) => `${name}{i="${i}"} ${value}\n`).join("");
}

/** A whole reader in the shape of a counting one: how many bytes were looked at. */
function counting(): { reader: ExpositionReader; bytes: () => number } {
  let bytes = 0;
  const proxy = {
    read(page: Uint8Array, length: number, sink: (sample: ExpositionSample) => void) {
      bytes += length;
      return reader.read(page, length, sink);
    },
  };
  return { reader: proxy as ExpositionReader, bytes: () => bytes };
}

describe("PageLayout", () => {
  it("finds what a whole reading finds, page after page, as values, series and neighbours change", () => {
    const values = fc.array(fc.oneof(fc.nat(20), fc.double({ noNaN: true, noDefaultInfinity: true })), {
      maxLength: 4,
    });
    const one = fc.record({
      a: values,
      b: values,
      c: values,
      before: fc.nat(120),
      between: fc.nat(120),
      after: fc.nat(20),
    });
    const shape = fc.record({ help: fc.boolean(), swapped: fc.boolean() });
    fc.assert(
      fc.property(shape, fc.array(one, { minLength: 1, maxLength: 12 }), ({ help, swapped }, pages) => {
        const sink = new Collected();
        const layout = new PageLayout(NAMES, sink);
        for (const { a, b, c, before, between, after } of pages) {
          // Every family has at least one series: one that is new is seen later, which is a case of its own.
          const parts = [family("m:a", [1, ...a], help), family("m:b", [2, ...b], help)];
          if (swapped) parts.reverse();
          const text =
            filler(before) + parts.join("") + filler(between) + family("m:c", [3, ...c], help) + filler(after);
          const page = Buffer.from(text);
          layout.read(reader, page, page.length);
          expect(sink.samples).toEqual(whole(page));
        }
      }),
    );
  });

  it("survives any page after any other", () => {
    const text = fc.oneof(
      fc.string(),
      fc.constantFrom(
        filler(3) + family("m:a", [1]),
        filler(90) + family("m:a", [1, 2]),
        family("m:b", [7]),
        "m:a 3\n",
      ),
    );
    fc.assert(
      fc.property(fc.array(fc.array(text, { maxLength: 3 }), { maxLength: 40 }), (pages) => {
        const layout = new PageLayout(NAMES, new Collected());
        for (const parts of pages) {
          const page = Buffer.from(parts.join("\n"));
          layout.read(reader, page, page.length);
        }
      }),
    );
  });

  it("looks at the wanted families only, and at none that has not changed", () => {
    const sink = new Collected();
    const layout = new PageLayout(NAMES, sink);
    const page = (a: number): Buffer =>
      Buffer.from(filler(500) + family("m:a", [a]) + filler(500) + family("m:c", [9]) + filler(500));
    layout.read(reader, page(1), page(1).length);
    const second = counting();
    layout.read(second.reader, page(2), page(2).length);
    expect(sink.samples).toEqual(whole(page(2)));
    expect(second.bytes()).toBeGreaterThan(0);
    expect(second.bytes()).toBeLessThan(100);
    const third = counting();
    layout.read(third.reader, page(2), page(2).length);
    expect(third.bytes()).toBe(0);
    expect(sink.samples).toEqual(whole(page(2)));
  });

  it("sees a family that is new on the page within 32 pages, and one that is gone at once", () => {
    const sink = new Collected();
    const layout = new PageLayout(NAMES, sink);
    const without = Buffer.from(filler(9) + family("m:a", [1]));
    const with_ = Buffer.from(filler(9) + family("m:a", [1]) + filler(90) + family("m:b", [2]));
    layout.read(reader, without, without.length);
    for (let i = 0; i < 32; i++) layout.read(reader, with_, with_.length);
    expect(sink.samples).toEqual(whole(with_));
    layout.read(reader, without, without.length);
    expect(sink.samples).toEqual(whole(without));
  });

  it("always reads a page whole that does not keep families together or has no types", () => {
    for (const text of [
      `${filler(1)}${family("m:a", [1])}${filler(1)}m:a{i="9"} 9\n`,
      `${filler(1)}m:a 1\nm:b 2\n`,
      family("m:a", [1], false),
    ]) {
      const sink = new Collected();
      const layout = new PageLayout(NAMES, sink);
      const page = Buffer.from(text);
      layout.read(reader, page, page.length);
      const count = counting();
      layout.read(count.reader, page, page.length);
      expect(count.bytes()).toBe(page.length);
      expect(sink.samples).toEqual(whole(page));
    }
  });

  it("heeds the length it is given", () => {
    const sink = new Collected();
    const layout = new PageLayout(NAMES, sink);
    const long = Buffer.from(`${filler(1)}${family("m:a", [1])}# HELP x\nm:b 7\n`);
    const length = long.indexOf("m:b");
    for (let i = 0; i < 3; i++) layout.read(reader, long, length);
    expect(sink.samples).toEqual(whole(long.subarray(0, length)));
  });
});
