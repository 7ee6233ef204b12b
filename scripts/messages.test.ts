import { describe, expect, it } from "vitest";
import { messagesIn } from "./messages.ts";

describe("the messages of a source file", () => {
  it("are its strings and templates with three words; values in them are one word", () => {
    const source = [
      'import { a } from "./no message of this file.ts";',
      "/** Not this: a comment. */",
      `throw new SluiceError("QUEUE_FULL", \`the queue \${name} holds \${count} requests\\nand takes no more\`);`,
      'const key = "two words"; const query = "SELECT a1, b2 FROM c3";',
      'log.warn("no endpoint answers");',
    ];
    expect(messagesIn("a.ts", source.join("\n"))).toEqual([
      "./no message of this file.ts",
      "the queue Code holds Code requests",
      "and takes no more",
      "no endpoint answers",
    ]);
  });
});
