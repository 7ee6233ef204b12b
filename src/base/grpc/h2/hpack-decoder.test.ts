import { describe, expect, it } from "vitest";
import { HpackDecoder } from "./hpack-decoder.ts";
import { decodeHuffman } from "./huffman.ts";
import { ERROR } from "./protocol.ts";

function decodeAll(decoder: HpackDecoder, hex: string): [string, string][] | undefined {
  const block = Buffer.from(hex.replaceAll(" ", ""), "hex");
  const fields: [string, string][] = [];
  const error = decoder.decode(block, 0, block.length, { field: ({ name, value }) => fields.push([name, value]) });
  return error === ERROR.none ? fields : undefined;
}

const GET = [
  [":method", "GET"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "www.example.com"],
];
const SECURE = [
  [":method", "GET"],
  [":scheme", "https"],
  [":path", "/index.html"],
  [":authority", "www.example.com"],
  ["custom-key", "custom-value"],
];

describe("HPACK, the examples of RFC 7541 appendix C", () => {
  it.each([
    ["C.2.1", "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", ["custom-key", "custom-header"], 55],
    ["C.2.2", "040c 2f73 616d 706c 652f 7061 7468", [":path", "/sample/path"], 0],
    ["C.2.3", "1008 7061 7373 776f 7264 0673 6563 7265 74", ["password", "secret"], 0],
    ["C.2.4", "82", [":method", "GET"], 0],
  ] as const)("%s", (_name, hex, expected, size) => {
    const decoder = new HpackDecoder();
    expect(decodeAll(decoder, hex)).toEqual([expected]);
    expect(decoder.tableSize).toBe(size);
  });

  it.each([
    [
      "C.3, plain",
      "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
      "8286 84be 5808 6e6f 2d63 6163 6865",
      "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ],
    [
      "C.4, Huffman",
      "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
      "8286 84be 5886 a8eb 1064 9cbf",
      "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ],
  ])("%s: three requests on one connection", (_name, first, second, third) => {
    const decoder = new HpackDecoder();
    expect(decodeAll(decoder, first)).toEqual(GET);
    expect(decodeAll(decoder, second)).toEqual([...GET, ["cache-control", "no-cache"]]);
    expect(decodeAll(decoder, third)).toEqual(SECURE);
    expect(decoder.tableSize).toBe(164);
  });

  it.each([
    [
      "C.5, plain",
      "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
      "4803 3330 37c1 c0bf",
      "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
    ],
    [
      "C.6, Huffman",
      "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
      "4883 640e ffc1 c0bf",
      "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ],
  ])("%s: a table of 256 bytes evicts", (_name, first, second, third) => {
    const decoder = new HpackDecoder();
    // A size update to 256 in front, as the examples presume.
    expect(decodeAll(decoder, `3fe1 01 ${first}`)).toEqual([
      [":status", "302"],
      ["cache-control", "private"],
      ["date", "Mon, 21 Oct 2013 20:13:21 GMT"],
      ["location", "https://www.example.com"],
    ]);
    expect(decoder.tableSize).toBe(222);
    expect(decodeAll(decoder, second)?.[0]).toEqual([":status", "307"]);
    expect(decodeAll(decoder, third)).toEqual([
      [":status", "200"],
      ["cache-control", "private"],
      ["date", "Mon, 21 Oct 2013 20:13:22 GMT"],
      ["location", "https://www.example.com"],
      ["content-encoding", "gzip"],
      ["set-cookie", "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"],
    ]);
    expect(decoder.tableSize).toBe(215);
  });
});

describe("HPACK, what is refused", () => {
  it.each([
    ["index 0", "80"],
    ["an index beyond the tables", "be"],
    ["a name index beyond the tables", "7f00 0161"],
    ["an integer without an end", "ffff ffff ffff ffff"],
    ["an integer that is cut off", "ff80"],
    ["a string that is cut off", "0005 6162"],
    ["a literal without its value", "0001 61"],
    ["a table larger than was offered", "3fe2 1f"],
    ["a size update behind a field", "82 20"],
    ["a third size update", "20 3fe11f 20"],
    ["a Huffman string with EOS in it", "0001 6184 ffff ffff"],
    ["a Huffman string with a padding of zeros", "0001 6181 18"],
    ["a Huffman string with eight bits of padding", "0001 6182 1fff"],
  ])("%s", (_what, hex) => {
    expect(decodeAll(new HpackDecoder(), hex)).toBeUndefined();
  });

  it.each(["0001 61 05 62", "0005 61", "0001 61 85 1f"])("a string that is longer than its block, %s", (hex) => {
    // What stands behind the block belongs to somebody else.
    const block = Buffer.from(hex.replaceAll(" ", ""), "hex");
    const memory = Buffer.concat([block, Buffer.alloc(100, 0x1f)]);
    const fields: unknown[] = [];
    const sink = { field: (field: unknown) => void fields.push(field) };
    expect(new HpackDecoder().decode(memory, 0, block.length, sink)).toBe(ERROR.compression);
    expect(fields).toEqual([]);
  });

  it("takes two size updates, and 2,048 fields but not one more", () => {
    const decoder = new HpackDecoder();
    expect(decodeAll(decoder, "20 3fe11f 82")).toEqual([[":method", "GET"]]);
    expect(decodeAll(decoder, "82".repeat(2048))).toHaveLength(2048);
    const block = Buffer.alloc(2049, 0x82);
    expect(decoder.decode(block, 0, block.length, { field() {} })).toBe(ERROR.enhanceYourCalm);
  });

  it("keeps the table within 4,096 bytes, however many fields are indexed", () => {
    const decoder = new HpackDecoder();
    for (let i = 0; i < 1000; i++) {
      // Empty names and values: the smallest entries there are.
      expect(decodeAll(decoder, "400000")).toEqual([["", ""]]);
      expect(decoder.tableSize).toBeLessThanOrEqual(4096);
    }
    expect(decoder.tableSize).toBe(4096);
    expect(decodeAll(decoder, "c0 20")).toBeUndefined();
    expect(decodeAll(decoder, "20")).toEqual([]);
    expect(decoder.tableSize).toBe(0);
    expect(decodeAll(decoder, "be")).toBeUndefined();
  });

  it("drops everything for an entry larger than the table", () => {
    const decoder = new HpackDecoder();
    decodeAll(decoder, "400161 0162");
    const value = "61".repeat(5000);
    expect(decodeAll(decoder, `400163 7f89 26 ${value}`)).toEqual([["c", "a".repeat(5000)]]);
    expect(decoder.tableSize).toBe(0);
  });

  it("tells two literals apart that share a beginning", () => {
    const decoder = new HpackDecoder();
    expect(decodeAll(decoder, "0402 2f61")).toEqual([[":path", "/a"]]);
    expect(decodeAll(decoder, "0402 2f61 0402 2f62 0403 2f6161")).toEqual([
      [":path", "/a"],
      [":path", "/b"],
      [":path", "/aa"],
    ]);
  });
});

describe("Huffman", () => {
  it("decodes codes of every length at every bit position", () => {
    // 'a' is 00011, '|' is 11111111100 (11 bits), 0x0a is 30 bits: 111111111111111111111111111100.
    const out = Buffer.alloc(16);
    const bits = `00011${"1".repeat(28)}00${"11111111100"}00011`;
    const padded = bits.padEnd(Math.ceil(bits.length / 8) * 8, "1");
    const bytes = Buffer.from(padded.match(/.{8}/g)!.map((octet) => Number.parseInt(octet, 2)));
    expect(out.subarray(0, decodeHuffman(bytes, 0, bytes.length, out)).toString("latin1")).toBe("a\n|a");
  });
});
