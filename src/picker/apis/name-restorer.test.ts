import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { NameRestorer } from "./name-restorer.ts";

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
