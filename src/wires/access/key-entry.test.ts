import { expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { keysIn } from "./key-entry.ts";

const HASH = `sha256:${"0".repeat(64)}`;
const keys = (text: string) => keysIn(parseDocument(text, { file: "keys.yaml" }));
const one = (more: string) => `keys:\n- id: abcdefghijkl\n  name: a\n  hash: "${HASH}"\n  ${more}\n`;

it.each(["", "keys:", "keys: []", "# nothing yet\n"])("no keys are fine: %j", (text) => {
  expect(keys(text)).toEqual([]);
});

it("times are read as moments, with any offset", () => {
  const [entry] = keys(one("expires: 2027-01-31T12:00:00+02:00"));
  expect(entry).toMatchObject({ expires: Date.parse("2027-01-31T10:00:00Z"), choosesFlow: false });
});

it.each([
  [
    one("model: [a]"),
    /^invalid keys file: keys\.yaml:5:3: keys\[0\]\.model: unknown key `model`; did you mean `models`\?$/,
  ],
  [one("models: []"), /keys\.yaml:5:3: keys\[0\]\.models: must have at least 1 entries/],
  [one('models: ["*"]'), /keys\[0\]\.models\[0\]: is not a model name here; leave `models` out/],
  [one("expires: 30d"), /keys\.yaml:5:3: keys\[0\]\.expires: expected a time such as "2027/],
  [one("expires: 2027-02-31T99:00:00Z"), /expected a time/],
  [one("priority: 1.5"), /priority: expected a whole number/],
  [one("priority: 3000000000"), /priority: /],
  [one('name: "a\\u0007b"').replace("  name: a\n", ""), /must not have control characters/],
  [one("objective: o\n  priority: 1"), /keys\[0\]\.priority: give `objective` or `priority`, not both/],
  [one("revoked: true"), /revoked: expected a time/],
  [`${one("models: [x]")}- { id: abcdefghijkl, name: b, hash: "${HASH}" }`, /keys\[1\]\.id: line 2 has the same id/],
  [
    `${one("models: [x]")}- { id: abcdefghijkm, name: a, hash: "${HASH}" }`,
    /keys\[1\]\.name: line 3 has the same name/,
  ],
  [`keys: [{ id: ABC, name: a, hash: sk-sluice-oops }]`, /12 lower-case letters[\s\S]*expected `sha256:`/],
  [`key: []`, /unknown key `key`; did you mean `keys`\?/],
])("%j is refused with its place", (text, message) => {
  expect(() => keys(text)).toThrow(message);
});

it("the number of keys is bounded", () => {
  const text = `keys:\n${Array.from({ length: 2_001 }, (_, i) => `- { id: k${String(i).padStart(11, "0")}, name: n${i}, hash: "${HASH}" }\n`).join("")}`;
  expect(() => keys(text)).toThrow(/must have at most 2000 entries/);
});
