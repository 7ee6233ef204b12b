import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NameRestorer, spliceModel } from "./model-name.ts";

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

/** Feeds a text in pieces cut at `cuts`. */
function restored(text: string, cuts: readonly number[] = [], target = "lora-7", incoming = "llama"): string {
  const bytes = Buffer.from(text);
  const restorer = new NameRestorer(target, incoming);
  const out: Uint8Array[] = [];
  let from = 0;
  for (const cut of [...cuts].sort((a, b) => a - b)) {
    out.push(restorer.feed(bytes.subarray(from, cut), false));
    from = cut;
  }
  out.push(restorer.feed(bytes.subarray(from), true));
  return Buffer.concat(out).toString();
}

describe("NameRestorer", () => {
  it("E-69: restores the name in both spacings, everywhere, and nothing else", () => {
    const text =
      '{"model":"lora-7","choices":[{"model": "lora-7","text":"model lora-7"}],"model":  "lora-7","m":"lora-7"}';
    expect(restored(text)).toBe(
      '{"model":"llama","choices":[{"model": "llama","text":"model lora-7"}],"model":  "lora-7","m":"lora-7"}',
    );
  });

  it("leaves longer and other names alone", () => {
    const text = '{"model":"lora-77","model":"lora-","model":"Lora-7"}';
    expect(restored(text)).toBe(text);
  });

  it("writes names as JSON, and knows a target that a serialiser escaped", () => {
    expect(restored('{"model":"mod\\u00e8le\\"x"}', [], 'modèle"x', 'a"b')).toBe('{"model":"a\\"b"}');
    expect(restored('{"model":"modèle\\"x"}', [], 'modèle"x', 'a"b')).toBe('{"model":"a\\"b"}');
  });

  it("pitfall 9: finds a name that is split anywhere between chunks", () => {
    const text = 'data: {"id":1,"model": "lora-7","x":"\\"model\\":"}\n\ndata: {"model":"lora-7"}\n\n';
    const wanted = restored(text);
    expect(wanted).not.toContain("lora-7");
    for (let a = 0; a <= text.length; a++)
      for (let b = a; b <= text.length; b += 3) expect(restored(text, [a, b])).toBe(wanted);
  });

  it("holds back nothing of a complete event, and at most the beginning of a name", () => {
    const restorer = new NameRestorer("lora-7", "llama");
    const event = Buffer.from('data: {"model":"other"}\n\n');
    expect(restorer.feed(event, false)).toBe(event);
    expect(Buffer.from(restorer.feed(Buffer.from('data: {"model":"lo'), false)).toString()).toBe("data: {");
    expect(Buffer.from(restorer.feed(Buffer.alloc(0), true)).toString()).toBe('"model":"lo');
  });

  it("agrees with replacing in the whole text, however it is cut", () => {
    const piece = fc.constantFrom(
      '"model":',
      '"model": ',
      '"lora-7"',
      '"lora-7',
      '"',
      "model",
      ":",
      "lora",
      "x",
      '"llama"',
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), fc.array(fc.nat(200), { maxLength: 8 }), (pieces, cuts) => {
        const text = pieces.join("");
        const wanted = text.replaceAll(/"model":( ?)"lora-7"/g, '"model":$1"llama"');
        expect(
          restored(
            text,
            cuts.map((cut) => Math.min(cut, text.length)),
          ),
        ).toBe(wanted);
      }),
      { numRuns: 500 },
    );
  });
});
