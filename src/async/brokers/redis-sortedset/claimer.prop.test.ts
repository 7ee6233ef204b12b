import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeEnvelope, NO_ROUTING } from "../messages/envelope.ts";
import { markedId } from "./claimer.ts";

describe("markedId", () => {
  it("finds the id of every envelope that begins its data with it, whatever routing and payload say", () => {
    fc.assert(
      fc.property(
        fc.string().filter((id) => JSON.stringify(id) === `"${id}"`),
        fc.dictionary(fc.string(), fc.string()),
        fc.jsonValue(),
        (id, labels, payload) => {
          const text = JSON.stringify({ id, payload });
          const routing = { ...NO_ROUTING, labels };
          expect(markedId(encodeEnvelope({ routing, kind: "redis", text }))).toBe(id);
        },
      ),
    );
  });

  it("finds none, or a part, where it stands elsewhere or is escaped: the caller compares", () => {
    expect(markedId('{"data":{"payload":{},"id":"a"}}')).toBeUndefined();
    expect(markedId('{"data":{"id":"open')).toBeUndefined();
    expect(markedId('{"data":{"id":"quo\\"te"}}')).toBe("quo\\");
  });
});
