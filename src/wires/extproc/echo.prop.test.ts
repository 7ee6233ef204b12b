import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeResponse } from "../../../test/support/extproc-client.ts";
import { Writer } from "../../base/grpc/protobuf.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { decodeProcessingRequest } from "./decode.ts";
import { encodeHeadersReply } from "./encode.ts";
import { requestMutation, responseMutation } from "./header-mutation.ts";
import { DEFAULT_WIRE_OPTIONS } from "./wire-options.ts";

const WRITER = new Writer();
const LEN_1 = 0x0a;
const LEN_2 = 0x12;
const LEN_3 = 0x1a;

const field = (tag: number | number[], bytes: Buffer): Buffer =>
  Buffer.concat([Buffer.from([tag].flat()), length(bytes.length), bytes]);
const length = (n: number): Buffer => Buffer.from(n < 128 ? [n] : [(n & 127) | 128, n >> 7]);

/** A tag of one byte in two. */
const OVERLONG = [LEN_1 | 0x80, 0];
/** A field that nobody knows: number 13, text "abc". */
const UNKNOWN = Buffer.from("6a03616263", "hex");

/** The ways to write a header; the first one is that of a reply. */
const FORMS: readonly ((key: Buffer, value: Buffer) => Buffer)[] = [
  (key, value) => field(LEN_1, Buffer.concat([field(LEN_1, key), field(LEN_3, value)])),
  (key, value) => field(LEN_1, Buffer.concat([field(LEN_1, key), field(LEN_2, value)])),
  (key, value) => field(LEN_1, Buffer.concat([field(LEN_3, value), field(LEN_1, key)])),
  (key, value) => field(LEN_1, Buffer.concat([field(LEN_1, key), field(LEN_3, value), UNKNOWN])),
  (key, value) => field(LEN_1, Buffer.concat([field(LEN_1, key), field(LEN_3, value), field(LEN_3, value)])),
  (key, value) => field(OVERLONG, Buffer.concat([field(LEN_1, key), field(LEN_3, value)])),
  (key, value) => Buffer.concat([field(LEN_1, Buffer.concat([field(LEN_1, key), field(LEN_3, value)])), UNKNOWN]),
  (key) => field(LEN_1, field(LEN_1, key)),
];

const name = fc.constantFrom("accept", "te", "x-a", "x-b", "X-C", "x-request-id", ":path", "host", "x-envoy-a", "");
const value = fc.oneof(
  fc.constantFrom("", "trailers", "é"),
  fc.string({ maxLength: 12 }),
  fc.string({ minLength: 130 }),
);
const header = fc.record({ name, value, form: fc.oneof({ weight: 20, arbitrary: fc.constant(0) }, fc.nat(7)) });

describe("an echo of received bytes", () => {
  it("is the echo of the texts", () => {
    let repeated = 0;
    const input = fc.record({
      headers: fc.array(header, { maxLength: 30 }),
      maps: fc.constantFrom(1, 1, 1, 2),
      literalAppendAction: fc.boolean(),
      removed: fc.option(fc.array(name, { maxLength: 2 }), { nil: undefined }),
      added: fc.option(fc.constantFrom("x-a", "accept"), { nil: undefined }),
      requestId: fc.option(fc.constant("id"), { nil: undefined }),
    });
    fc.assert(
      fc.property(input, ({ headers, maps, literalAppendAction, removed, added, requestId }) => {
        const options = { ...DEFAULT_WIRE_OPTIONS, literalAppendAction };
        const entries = headers.map(({ form, ...one }) =>
          FORMS[form]!(Buffer.from(one.name), Buffer.from(one.value, "latin1")),
        );
        const middle = maps === 1 ? entries.length : entries.length >> 1;
        const parts = [entries.slice(0, middle), ...(maps === 1 ? [] : [entries.slice(middle)])];
        const map = Buffer.concat(parts.map((part) => field(LEN_1, Buffer.concat(part))));
        const received = decodeProcessingRequest(field(LEN_2, map));
        const list = received.headers!;
        const more = added === undefined ? undefined : HeaderList.of([[added, "plugin"]]);
        const values = { destination: "10.0.0.1:80", contentLength: 5, requestId, added: more, removed };
        const both = [received, undefined].map((given) => {
          const mutations = [
            requestMutation(list, values, options, true, given),
            responseMutation(list, more, true, options, given),
          ];
          // A mutation is encoded before the next one is made.
          const replies = [
            encodeHeadersReply(WRITER, "request", requestMutation(list, values, options, true, given)),
            encodeHeadersReply(WRITER, "response", responseMutation(list, more, true, options, given)),
          ];
          if (mutations.some(({ echoed }) => echoed !== undefined)) repeated++;
          return replies.map((reply) => decodeResponse(Buffer.from(reply).subarray(5)));
        });
        expect(both[0]).toEqual(both[1]);
      }),
      { numRuns: 500 },
    );
    // Else nothing was compared.
    expect(repeated).toBeGreaterThan(50);
  });

  it("repeats the headers that a proxy sends", () => {
    const entry = FORMS[0]!(Buffer.from("accept"), Buffer.from("*/*"));
    const received = decodeProcessingRequest(field(LEN_2, field(LEN_1, entry)));
    const { echoed, set } = responseMutation(received.headers!, undefined, false, DEFAULT_WIRE_OPTIONS, received);
    expect(set.keys).toEqual(["x-went-into-resp-headers"]);
    const [from, to] = echoed!.ranges;
    expect(echoed!.count).toBe(1);
    expect(Buffer.from(echoed!.bytes).subarray(from, to)).toEqual(entry);
  });
});
