import { describe, expect, it } from "vitest";
import { parseDocument } from "../../base/document/parse.ts";
import { validate } from "../../base/document/validate.ts";
import type { SluiceError } from "../../base/inference/errors.ts";
import type { FlagRow } from "../common/go-flags.ts";
import { flagSchema } from "./dispatch-settings.ts";

const ROW = { name: "flag", default: "", since: "ours", help: "" } as const;

function read(row: Partial<FlagRow> & Pick<FlagRow, "type">, text: string): unknown {
  try {
    return validate(parseDocument(text, { file: "f" }), flagSchema({ ...ROW, ...row }), { what: "file" });
  } catch (error) {
    return (error as SluiceError).message.replace("invalid file: f:1:1: ", "");
  }
}

describe("flagSchema", () => {
  it.each<[Partial<FlagRow> & Pick<FlagRow, "type">, text: string, value: unknown]>([
    [{ type: "bool" }, "true", true],
    [{ type: "bool" }, '"true"', 'expected true or false, got the string "true"'],
    [{ type: "int", min: 1, max: 5 }, "5", 5],
    [{ type: "int", min: 1, max: 5 }, "0", "must be at least 1, got 0"],
    [{ type: "int", min: 1, max: 5 }, "6", "must be at most 5, got 6"],
    [{ type: "int" }, "1.5", "expected a whole number, got 1.5"],
    [{ type: "string" }, "text", "text"],
    [{ type: "string" }, "5", "expected a string, got 5"],
    [{ type: "string", choices: ["", "json"] }, "json", "json"],
    [
      { type: "string", choices: ["json", "console"] },
      "jsno",
      'expected one of `json`, `console`, got the string "jsno"; did you mean `json`?',
    ],
    [{ type: "duration" }, "1m30s", 90_000],
    [{ type: "duration" }, "0", 0],
    [{ type: "duration", min: 1 }, "0", "must be at least 1ms, got 0"],
    [{ type: "duration" }, "-1s", "must be at least 0ms, got -1s"],
    // More than a timer takes.
    [{ type: "duration" }, "1000h", "must be at most 2147483647, got 3600000000"],
    [{ type: "quantity" }, "64Mi", 64 * 1024 * 1024],
    [{ type: "quantity" }, "1000", 1000],
    [{ type: "quantity", min: 1, max: 2 ** 20 }, "2Mi", "must be at most 1048576, got 2097152"],
    [{ type: "quantity", min: 1 }, "0", "must be at least 1, got 0"],
    [{ type: "list" }, "[a, b]", ["a", "b"]],
    [{ type: "list" }, "a", 'expected a list, got the string "a"'],
  ])("%o: %s", (row, text, value) => {
    expect(read(row, text)).toEqual(value);
  });
});
