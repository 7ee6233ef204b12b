import { describe, expect, it } from "vitest";
import { CacheCounters } from "../../lab/demo/cluster.ts";
import { columns, ProgressLine, Screen } from "./screen.ts";

describe("Screen", () => {
  it("redraws its picture in place on a terminal, below the lines that stay", () => {
    let text = "";
    const screen = new Screen({
      write: (part) => {
        text += part;
      },
      isTerminal: true,
    });
    screen.draw(["a", "b"], "ab");
    screen.say("stays");
    screen.draw(["c", "d"], "cd");
    expect(text).toBe("a\nb\n\u001b[2A\u001b[0Jstays\nc\nd\n");
  });

  it("writes one line for each picture on a plain stream", () => {
    let text = "";
    const screen = new Screen({
      write: (part) => {
        text += part;
      },
      isTerminal: false,
    });
    screen.draw(["a", "b"], "ab");
    screen.say("stays");
    expect(text).toBe("ab\nstays\n");
  });

  it("aligns columns", () => {
    expect(
      columns([
        ["name", "n"],
        ["x", "100"],
      ]),
    ).toEqual(["name    n", "x     100"]);
  });
});

describe("CacheCounters", () => {
  const page = (hits: number, queries: number) =>
    `# TYPE x counter\nvllm:prefix_cache_hits_total{model_name="sim"} ${hits}\nvllm:prefix_cache_queries_total{model_name="sim"} ${queries}\n`;

  it("takes differences per server and survives a restart of one", () => {
    const counters = new CacheCounters();
    counters.add("a", page(100, 1000));
    counters.add("b", page(0, 0));
    counters.restart();
    counters.add("a", page(150, 1100));
    counters.add("b", page(0, 50));
    counters.add("b", page(25, 50));
    counters.add("a", page(25, 50));
    expect(counters.hitRate).toBeCloseTo(100 / 200);
  });

  it("is 0 before anything was asked", () => {
    expect(new CacheCounters().hitRate).toBe(0);
  });
});

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
