import { ok, strictEqual } from "node:assert/strict";
import { anyJson } from "../../../src/picker/apis/fallbacks.ts";
import { DEFAULT_FAMILIES, sglangHttp } from "../../../src/picker/apis/families.ts";
import { JsonMembers } from "../../../src/picker/apis/json/members.ts";
import { JsonScanner } from "../../../src/picker/apis/json/scanner.ts";
import { usageFromJson } from "../../../src/picker/apis/usage/json-usage.ts";
import { checkJsonParser, decodeJson } from "../../../test/support/parser-oracle.ts";
import type { FuzzTarget } from "../target.ts";

const none = new JsonMembers([]);
const PARSERS = [...DEFAULT_FAMILIES, sglangHttp].flatMap(({ parsers }) => parsers).concat(anyJson);

/** The scanner accepts what `JSON.parse` accepts; every parser agrees with it on members and splices. */
export const json: FuzzTarget = {
  name: "json",
  shortRuns: 8000,
  tokens: [
    ...['{"model":"m",', '"model":', '"prompt":', '"messages":[', '"tools":', '"input":', '"items":', '"system":'],
    ...['"token_ids":[1,2]', '"input_ids":[1]', '"stream":true', '"cache_salt":"s"', '"max_tokens":5', '"features":{'],
    ...['"mm_hashes":', '"sampling_params":{', '"usage":{', '"meta_info":{', '"prompt_tokens":1', '"response":{'],
    ...["null", "true", "false", "[]", "{}", '""', "[[1],[2]]", "-0", "1e5", "0.5", "[", "{", "}", "]", "\\u006d"],
    ...['\\"', "\\ud800", "\\u00", "é", "\u{1f600}", "\ufeff", Uint8Array.of(0xc3), Uint8Array.of(0xff), "\0"],
  ],
  run(input) {
    const scanner = new JsonScanner(input);
    const wrong = none.read(scanner);
    const document = decodeJson(input);
    if (wrong !== undefined && !wrong.startsWith("json: cannot unmarshal")) {
      // The house refuses what is nested beyond 10,000; nothing else that JSON.parse takes.
      ok(document === undefined || wrong.includes("exceeded max depth"), `refused: ${wrong}`);
    } else {
      ok(document !== undefined, "accepted what JSON.parse refuses");
    }
    const usage = usageFromJson(input);
    if (document === undefined) strictEqual(usage, undefined);
    const said = PARSERS.map((parser) => checkJsonParser(parser, input));
    return `${wrong?.slice(0, 60)} ${usage !== undefined} ${said.join()}`;
  },
};
