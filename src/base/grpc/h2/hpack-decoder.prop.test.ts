import http2 from "node:http2";
import net, { type AddressInfo } from "node:net";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { frame } from "../../../../test/support/h2-peer.ts";
import { poll } from "../../../../test/support/poll.ts";
import { HpackDecoder } from "./hpack-decoder.ts";
import { decodeHuffman } from "./huffman.ts";
import { ERROR, FRAME, PREFACE } from "./protocol.ts";

const letters = "abcdefghijklmnopqrstuvwxyz0123456789-_";
const name = fc.string({ unit: fc.constantFrom(...letters), minLength: 1, maxLength: 20 }).map((text) => `x${text}`);
const value = fc.oneof(
  fc.string({ unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)), maxLength: 300 }),
  fc.constantFrom("", "same", "again"),
);
const path = fc.constantFrom("/a", "/b", "/envoy.service.ext_proc.v3.ExternalProcessor/Process");
const requests = fc.array(fc.record({ path, fields: fc.dictionary(name, value, { maxKeys: 12 }) }), {
  minLength: 400,
  maxLength: 400,
});

/** The header blocks in what a client has sent, in order, and the number of streams they opened. */
function headerBlocks(bytes: Buffer): Buffer[] {
  const blocks: Buffer[] = [];
  for (let at = PREFACE.length; at + 9 <= bytes.length; ) {
    const end = at + 9 + bytes.readUIntBE(at, 3);
    if (end > bytes.length) break;
    if (bytes[at + 3] === FRAME.headers)
      blocks.push(bytes.subarray(at + 9 + ((bytes[at + 4]! & 0x20) === 0 ? 0 : 5), end));
    at = end;
  }
  return blocks;
}

describe("HPACK, against the encoder of node:http2", () => {
  it("decodes 400 requests of one connection to what was sent, dynamic table and all", async () => {
    const [sent] = fc.sample(requests, { numRuns: 1, seed: 7541 });
    let received = Buffer.alloc(0);
    const server = net.createServer((socket) => {
      socket.write(frame(FRAME.settings, 0, 0));
      socket.on("error", () => {});
      socket.on("data", (chunk: Buffer) => {
        received = Buffer.concat([received, chunk]);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const client = http2.connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    client.on("error", () => {});
    await new Promise((resolve) => client.once("remoteSettings", resolve));
    for (const { path, fields } of sent!) {
      client.request({ ":method": "POST", ":path": path, ...fields }).on("error", () => {});
    }
    await poll("all requests", () => headerBlocks(received).length === sent!.length);
    client.destroy();
    server.close();

    const decoder = new HpackDecoder();
    headerBlocks(received).forEach((block, index) => {
      const got: Record<string, string> = {};
      const error = decoder.decode(block, 0, block.length, {
        field: (field) => {
          got[field.name] = field.value;
          expect(field.size).toBe(field.name.length + field.value.length + 32);
        },
      });
      expect(error).toBe(ERROR.none);
      const { path, fields } = sent![index]!;
      expect(got).toMatchObject({ ":method": "POST", ":path": path, ":scheme": "http", ...fields });
      expect(Object.keys(got)).toHaveLength(4 + Object.keys(fields).length);
      expect(decoder.tableSize).toBeLessThanOrEqual(4096);
    });
    expect(decoder.tableSize).toBeGreaterThan(3000);
  });
});

describe("HPACK under random input", () => {
  it("never throws, and stays within its table", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 20 }), (blocks) => {
        const decoder = new HpackDecoder();
        for (const block of blocks) {
          decoder.decode(Buffer.from(block), 0, block.length, { field: () => {} });
          expect(decoder.tableSize).toBeLessThanOrEqual(4096);
        }
      }),
      { numRuns: 3000 },
    );
  });

  it("decodes no Huffman text to more than 8/5 of its length", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        expect(decodeHuffman(bytes, 0, bytes.length, Buffer.alloc(200))).toBeLessThanOrEqual((bytes.length * 8) / 5);
      }),
      { numRuns: 3000 },
    );
  });
});
