import { describe, expect, it } from "vitest";
import { batchCommand } from "../dispatch/queue-commands.ts";
import { withApiBatches } from "./command.ts";

function run(...args: string[]): Promise<unknown> {
  return withApiBatches(batchCommand()).parseAsync(args, { from: "user" });
}

describe("sluice batch ls, show and cancel", () => {
  it.each([
    [["ls"], "FLAG_MISSING", /--url URL/],
    [["ls", "--url", "http://a", "--dir", "b"], "FLAG_CONFLICT", /either --url or --dir/],
    [["ls", "--dir", "/nowhere", "--key-file", "b"], "FLAG_CONFLICT", /--key-file works only with --url/],
    [["ls", "--dir", "/nowhere"], "BATCH_STORE", /no batches.db/],
    [["ls", "--dir", "redis://user:secret@store:6379"], "FLAG_VALUE", /--dir is redis:\/\/\.\.\.: .*--url/],
    [["ls", "--url", "nowhere"], "FLAG_VALUE", /--url is "nowhere"/],
    [["ls", "--url", "http://user:secret@a"], "FLAG_VALUE", /--url is a hidden value with @/],
    [["ls", "-n", "101", "--dir", "/nowhere"], "FLAG_VALUE", /-n is "101"/],
    [["show"], "FLAG_MISSING", /give <id>/],
    [["show", "batch_1", "--follow", "--json", "--dir", "/nowhere"], "FLAG_CONFLICT", /--follow/],
    [["cancel", "--dir", "/nowhere"], "FLAG_MISSING", /give <ids>/],
    [["ls", "--lines"], "FLAG_UNKNOWN", /sluice batch ls/],
    // What belongs to the command itself has no effect here, before the part or behind it.
    [["--queue", "q", "ls", "--dir", "/nowhere"], "FLAG_CONFLICT", /--queue has no effect with sluice batch ls/],
    [["ls", "--dir", "/nowhere", "--queue", "q"], "FLAG_UNKNOWN", /--queue/],
  ])("refuses %j", async (args, code, message) => {
    await expect(run(...args)).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
  });

  it("leaves files to the command itself", async () => {
    await expect(run("in.jsonl")).rejects.toMatchObject({ code: "FLAG_MISSING", message: /<out.jsonl>/ });
    const late = run("in.jsonl", "out.jsonl", "--queue", "q");
    await expect(late).rejects.toMatchObject({ code: "FLAG_MISSING", message: /--config FILE/ });
  });
});
