import fc from "fast-check";
import type { Struct } from "../../src/wires/extproc/messages.ts";

/** Names and values of headers, one character a byte. */
export const key = fc.stringMatching(/^[a-z0-9:_-]{0,20}$/);
export const latin1 = fc.string({ unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)) });
export const pairs = fc.array(fc.tuple(key, latin1), { maxLength: 12 });

const value = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.string({ unit: "grapheme" }),
    fc.double({ noNaN: true }),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    tie("object"),
  ),
  object: fc.dictionary(fc.string(), tie("value"), { maxKeys: 4 }),
}));
/** Dynamic metadata: a struct for each namespace. */
export const namespaces = fc.dictionary(fc.string({ maxLength: 12 }), value.object as fc.Arbitrary<Struct>, {
  maxKeys: 4,
});
