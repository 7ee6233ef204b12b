import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { spliceModel } from "./splice-model.ts";

const spliced = (text: string, place: { range?: string; at?: number }, model: string): string => {
  const body = Buffer.from(text);
  const start = place.range === undefined ? -1 : body.lastIndexOf(place.range);
  const modelRange = start < 0 ? undefined : { start, end: start + Buffer.byteLength(place.range!) };
  return Buffer.concat(spliceModel(body, { modelRange, modelInsertAt: place.at ?? -1 }, model)).toString();
};

describe("spliceModel", () => {
  it("E-32: changes the value alone; big integers, escapes and spaces stay as they came", () => {
    const text = '{ "id": 12345678901234567890, "prompt": "\\u00e9<>&é",\n "model": "llama"  , "x": 1.0 }';
    expect(spliced(text, { range: '"llama"' }, "llama-lora-7")).toBe(text.replace('"llama"', '"llama-lora-7"'));
  });

  it("writes any name as JSON", () => {
    expect(spliced('{"model":"a"}', { range: '"a"' }, 'q"\\\n é')).toBe('{"model":"q\\"\\\\\\n é"}');
  });

  it("E-109: adds the member where there is none, also to an empty object", () => {
    expect(spliced('{"prompt":"x"}', { at: 1 }, "m")).toBe('{"model":"m","prompt":"x"}');
    expect(spliced("{ }", { at: 1 }, "m")).toBe('{"model":"m" }');
    expect(spliced(' {\n"a":1}', { at: 2 }, "m")).toBe(' {"model":"m",\n"a":1}');
  });

  it("leaves a body without a place for a name alone, by reference", () => {
    const body = Buffer.from([1, 2, 3]);
    expect(spliceModel(body, { modelRange: undefined, modelInsertAt: -1 }, "m")).toEqual([body]);
  });

  it("keeps every other member of any document", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.string(),
        fc.string({ minLength: 1 }),
        (rest, old, name) => {
          const { model: _, ...others } = rest;
          const text = JSON.stringify({ ...others, model: old });
          const range = `${JSON.stringify(old)}}`;
          const start = Buffer.byteLength(text) - Buffer.byteLength(range);
          const parts = spliceModel(
            Buffer.from(text),
            { modelRange: { start, end: Buffer.byteLength(text) - 1 }, modelInsertAt: -1 },
            name,
          );
          expect(JSON.parse(Buffer.concat(parts).toString())).toEqual(
            JSON.parse(JSON.stringify({ ...others, model: name })),
          );
        },
      ),
    );
  });
});
