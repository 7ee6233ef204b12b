import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../../base/clock/random.ts";
import { parseDocument } from "../../../base/document/parse.ts";
import { requestTransforms } from "./transforms-file.ts";

const read = (text: string) => requestTransforms(parseDocument(text, { file: "t.json" }), new SeededRandom(1));
const file = (...entries: object[]) => JSON.stringify({ requestTransforms: entries });
const gcs = (name: string, ...providers: string[]) => ({ name, type: "gcs_uri_multipart", parameters: { providers } });
const bytes = (payload: object | string) =>
  Buffer.from(typeof payload === "string" ? payload : JSON.stringify(payload));

const URI = "https://storage.googleapis.com/b/f.wav";
/** Unix seconds. */
const EXPIRES = 1790000000;
const META = { provider: "acme" };

describe("requestTransforms", () => {
  it("leaves every payload as it is without a file, or with none listed", () => {
    for (const chain of [requestTransforms(undefined, new SeededRandom(1)), read("{}"), read(file())]) {
      chain.validate(bytes({ gcs_uri: URI }), META, 1);
      expect(chain.transform(bytes({ gcs_uri: URI }), META)).toBeUndefined();
    }
  });

  const refused: readonly (readonly [text: string, message: RegExp])[] = [
    ['{"responseTransforms":[]}', /t\.json:1:2: responseTransforms: unknown key `responseTransforms`/],
    ['{"requestTransforms":[],"x":1}', /unknown key `x`/],
    [file({ ...gcs("a", "p"), enabled: true }), /requestTransforms\[0\]\.enabled: unknown key/],
    [file({ ...gcs("a", "p"), type: "gcs-uri-multipart" }), /did you mean `gcs_uri_multipart`\?/],
    [file(gcs("", "p")), /name: must not be empty/],
    [
      file(gcs("a", "p"), gcs("b", "p"), gcs("a", "q")),
      /requestTransforms\[2\]\.name: another transform already has the name `a`/,
    ],
    [file(gcs("a")), /providers: must have at least 1 entries/],
    [file(gcs("a", "")), /providers\[0\]: must not be empty/],
    [file({ name: "a", type: "gcs_uri_multipart" }), /parameters\.providers: is missing/],
    [
      file({ ...gcs("a"), parameters: { providers: ["p"], provider: "p" } }),
      /unknown key `provider`; did you mean `providers`\?/,
    ],
  ];
  it.each(refused)("refuses %s at start (A-72)", (text, message) => {
    expect(() => read(text)).toThrow(expect.objectContaining({ code: "DOCUMENT_INVALID" }));
    expect(() => read(text)).toThrow(message);
  });

  it("lets the first that claims a message win, and asks the next ones otherwise (A-73)", () => {
    const chain = read(file(gcs("one", "acme"), gcs("two", "acme", "other")));
    const both = bytes({ gcs_uri: URI, file_base64: "x" });
    expect(() => chain.transform(both, META)).toThrow(/^transform one\/gcs_uri_multipart: /);
    expect(() => chain.transform(both, { provider: "other" })).toThrow(/^transform two\/gcs_uri_multipart: /);
    expect(chain.transform(both, { provider: "nobody" })).toBeUndefined();
    expect(chain.transform(both, {})).toBeUndefined();
  });

  it("validates with all of them, and fails for good with the first error (A-73)", () => {
    const chain = read(file(gcs("one", "other"), gcs("two", "acme")));
    const payload = bytes({ gcs_uri: `${URI}?Expires=${EXPIRES}` });
    expect(() => chain.validate(payload, META, EXPIRES)).toThrow(
      expect.objectContaining({
        code: "TRANSFORM",
        message: `transform two/gcs_uri_multipart: the signed URL in gcs_uri expires at ${EXPIRES}, not after the deadline ${EXPIRES} (Unix seconds)`,
      }),
    );
  });
});

describe("gcs_uri_multipart", () => {
  const chain = read(file(gcs("gcs", "acme")));
  const validate = (query: string, deadline: number) =>
    chain.validate(bytes({ gcs_uri: `${URI}?${query}` }), META, deadline);

  it("refuses a signed URL that does not outlive the deadline (A-74)", () => {
    const v4 = "X-Goog-Date=20261121T100000Z&X-Goog-Expires=60&X-Goog-Signature=secret";
    const end = Date.UTC(2026, 10, 21, 10, 1) / 1000;
    for (const deadline of [end, end + 1]) expect(() => validate(v4, deadline)).toThrow(/expires at/);
    expect(() => validate(v4, end)).not.toThrow(/secret/);
    expect(() => validate(v4, end - 1)).not.toThrow();
    expect(() => validate(`Expires=${EXPIRES}`, EXPIRES + 1)).toThrow(/expires at/);
    expect(() => validate(`Expires=${EXPIRES}`, EXPIRES - 1)).not.toThrow();
  });

  it("passes URLs that do not say when they expire, and messages that are not its own (A-74)", () => {
    for (const query of ["", "Expires=never", "X-Goog-Date=x&X-Goog-Expires=1"]) validate(query, EXPIRES);
    const expired = bytes({ gcs_uri: `${URI}?Expires=1` });
    chain.validate(expired, { provider: "other" }, EXPIRES);
    chain.validate(bytes({ gcs_uri: "" }), META, EXPIRES);
  });

  it("sends the URI first as url, texts plain and all else as it was written (A-74)", async () => {
    const payload = bytes(
      '{"model":"w","n":12345678901234567890,"opt":{"a":[1, "x"]},"on":true,"none":null,"q":"a\\"\\u00e4\\n",' +
        `"file_base64":"","gcs_uri":"${URI}","language":"de"}`,
    );
    const before = Buffer.from(payload);
    const { body, contentType } = chain.transform(payload, META)!;
    const response = new Response(Buffer.from(body), { headers: { "content-type": contentType } });
    expect([...(await response.formData())]).toEqual([
      ["url", URI],
      ["model", "w"],
      ["n", "12345678901234567890"],
      ["opt", '{"a":[1, "x"]}'],
      ["on", "true"],
      ["none", "null"],
      ["q", 'a"ä\n'],
      ["language", "de"],
    ]);
    expect(payload.equals(before)).toBe(true);
  });

  it("refuses a payload that has the file besides its URI, whatever its type (A-74)", () => {
    for (const file_base64 of ["QQ==", 5, {}])
      expect(() => chain.transform(bytes({ gcs_uri: URI, file_base64 }), META)).toThrow(
        "transform gcs/gcs_uri_multipart: the payload has both gcs_uri and file_base64; send one of them",
      );
    expect(chain.transform(bytes({ gcs_uri: URI, file_base64: null }), META)).toBeDefined();
  });

  it("leaves payloads without a URI as they are", () => {
    for (const gcs_uri of [undefined, null, "", 5, { a: 1 }])
      expect(chain.transform(bytes({ gcs_uri, file_base64: "QQ==" }), META)).toBeUndefined();
  });

  it("says what is wrong with a payload that is not a JSON object", () => {
    for (const payload of ["[]", "nul", ""])
      expect(() => chain.transform(bytes(payload), META)).toThrow(expect.objectContaining({ code: "TRANSFORM" }));
  });
});
