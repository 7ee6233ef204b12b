import { describe, expect, it } from "vitest";
import { ProgressLine } from "./progress-line.ts";

function screen(terminal: boolean, columns?: number) {
  let written = "";
  const line = new ProgressLine({
    isTTY: terminal,
    columns,
    write(text) {
      written += text;
    },
  });
  return { line, written: () => written.replaceAll("\u001b[2K", "|") };
}

describe("ProgressLine", () => {
  it("changes one line of a terminal, and writes what is told above it", () => {
    const { line, written } = screen(true, 10);
    line.show("1/10");
    line.tell("careful");
    line.show("2/10, and more");
    line.keep();
    line.tell("done");
    line.clear();
    expect(written()).toBe("\r|1/10\r|sluice: careful\n\r|1/10\r|2/10, and\nsluice: done\n");
  });

  it("writes whole lines where nobody watches", () => {
    const { line, written } = screen(false);
    line.show("1/10");
    line.tell("careful");
    line.show("2/10");
    line.clear();
    line.keep();
    expect(written()).toBe("1/10\nsluice: careful\n2/10\n");
  });
});
