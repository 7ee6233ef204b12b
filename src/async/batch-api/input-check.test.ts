import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { inputLine, inputLines } from "../../../test/support/batch-api/engine-rig.cases.ts";
import { checkInput, type InputCheckOptions } from "./input-check.ts";
import { requestLines } from "./request-lines.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-check-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, "in.jsonl");

function check(content: string | Buffer, over: Partial<InputCheckOptions> = {}) {
  writeFileSync(path, content);
  return checkInput({
    ...{ path, endpoint: "/v1/chat/completions", models: undefined, lines: 1000, spill: join(folder, "ids") },
    ...{ seeds: [1, 2], breathe: async () => {}, ...over },
  });
}

describe("the check of an input", () => {
  it("counts lines, blank ones left out, and passes what the run can read", async () => {
    const content = `\ufeff${inputLine("a")}\r\n \t\n${inputLine("b").trimEnd()}\r\n${inputLine("ü").trimEnd()}`;
    expect(await check(content)).toEqual({ lines: 3, problems: [] });
    expect([...requestLines(path, () => true)].map(({ line, customId, body }) => [line, customId, body])).toEqual([
      [1, "a", '{"model":"m","n":"a"}'],
      [4, "b", '{"model":"m","n":"b"}'],
      [5, "ü", '{"model":"m","n":"ü"}'],
    ]);
    expect([...requestLines(path, (line) => line === 4)].map(({ customId }) => customId)).toEqual(["b"]);
  });

  it.each([
    ["invalid_json_line", null, '{"custom_id":"secret prompt"'],
    ["invalid_json_line", null, "[]"],
    ["missing_required_parameter", "custom_id", { custom_id: undefined, customid: "x" }],
    ["missing_required_parameter", "body", { body: null }],
    ["missing_required_parameter", "body.model", { body: {} }],
    ["invalid_custom_id", "custom_id", { custom_id: 7 }],
    ["invalid_custom_id", "custom_id", { custom_id: "x".repeat(513) }],
    ["invalid_method", "method", { method: "GET" }],
    ["mismatched_url", "url", { url: "/v1/embeddings" }],
    ["invalid_body", "body", { body: [1] }],
    ["invalid_model", "body.model", { body: { model: 5 } }],
    ["stream_not_supported", "body.stream", { body: { model: "m", stream: true } }],
  ])("tells %s of %s", async (code, param, bad) => {
    const line = typeof bad === "string" ? `${bad}\n` : inputLine("bad", bad);
    const { lines, problems } = await check(inputLine("a") + line + inputLine("b"));
    expect(lines).toBe(3);
    expect(problems).toEqual([{ code, param, line: 2, message: expect.any(String) }]);
    expect(problems[0]!.message).not.toContain("secret");
  });

  it("names the misspelt member", async () => {
    const { problems } = await check(inputLine("a", { custom_id: undefined, custom_ids: "x" }));
    expect(problems[0]!.message).toBe('custom_id is missing; did you mean custom_id instead of "custom_ids"?');
  });

  it("refuses models that the key may not use", async () => {
    const { problems } = await check(inputLine("a"), { models: new Set(["other"]) });
    expect(problems[0]).toMatchObject({ code: "model_not_found", line: 1 });
    expect((await check(inputLine("a"), { models: new Set(["m"]) })).problems).toEqual([]);
  });

  it("refuses bytes that are not UTF-8", async () => {
    const { problems } = await check(Buffer.concat([Buffer.from(inputLine("a")), Buffer.from([0xff, 0x0a])]));
    expect(problems).toMatchObject([{ code: "invalid_encoding", line: 2 }]);
  });

  it("names each further line of a custom id, among lines with other faults, in order", async () => {
    const content =
      ["a", "b", "a", "c", "b", "a"].map((id) => inputLine(id)).join("") + inputLine("c", { method: "X" });
    const { problems } = await check(content);
    expect(problems.map(({ line, code }) => [line, code])).toEqual([
      [3, "duplicate_custom_id"],
      [5, "duplicate_custom_id"],
      [6, "duplicate_custom_id"],
      [7, "invalid_method"],
      [7, "duplicate_custom_id"],
    ]);
    expect(problems[0]!.message).toBe('the custom_id "a" is also on line 1');
  });

  it("tells at most 100 problems, the first ones", async () => {
    const { lines, problems } = await check(inputLine("a").repeat(300));
    expect([lines, problems.length, problems[0]!.line, problems[99]!.line]).toEqual([300, 100, 2, 101]);
  });

  it("refuses an empty file, and one with too many lines", async () => {
    expect(await check("\n \n")).toMatchObject({ lines: 0, problems: [{ code: "empty_file", line: null }] });
    expect((await check(inputLines(4), { lines: 3 })).problems).toMatchObject([{ code: "too_many_lines" }]);
    expect((await check(inputLines(3), { lines: 3 })).problems).toEqual([]);
  });

  it("ends when the batch does", async () => {
    const stop = async (): Promise<void> => {
      throw new Error("enough");
    };
    await expect(check(inputLines(3), { breathe: stop })).rejects.toThrow("enough");
  });

  it("finds a line that has changed since", async () => {
    await check(inputLines(1));
    writeFileSync(path, "nonsense\n");
    expect(() => [...requestLines(path, () => true)]).toThrow(/line 1 of .* changed after the check of the input/);
  });
});
