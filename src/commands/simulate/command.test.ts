import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { SluiceError } from "../../base/inference/errors.ts";
import { simulateCommand } from "./command.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-simulate-"));
const file = (name: string, text: string): string => {
  writeFileSync(join(folder, name), text);
  return join(folder, name);
};
/** What a run of a test needs: requests of two virtual seconds, on two servers, without a warm-up. */
const TINY = [
  "--cold",
  "--rate",
  "4",
  "--duration",
  "2s",
  "--servers",
  "2",
  "--seeds",
  "1",
  "--policy",
  "round-robin",
  "default",
];

afterAll(() => rmSync(folder, { recursive: true }));
afterEach(() => {
  process.exitCode = undefined;
});

interface Outcome {
  readonly out: string;
  readonly err: string;
  readonly error: string | undefined;
  readonly status: unknown;
}

async function run(args: readonly string[], terminal = false, onWrite = (_: string): void => {}): Promise<Outcome> {
  let out = "";
  let err = "";
  let error: string | undefined;
  const stdout = {
    isTTY: terminal,
    columns: 80,
    write(text: string) {
      out += text;
    },
  };
  const stderr = {
    ...stdout,
    write(text: string) {
      err += text;
      onWrite(text);
    },
  };
  try {
    await simulateCommand({ stdout, stderr }).parseAsync(args, { from: "user" });
  } catch (thrown) {
    if (!(thrown instanceof SluiceError)) throw thrown;
    error = `${thrown.code}: ${thrown.message}`;
  }
  return { out, err, error, status: process.exitCode };
}

describe("sluice simulate", () => {
  it("says what it will do, plays it, and shows a table", async () => {
    const { out, err, error, status } = await run(TINY);
    expect([error, status]).toEqual([undefined, 0]);
    expect(err).toBe(
      "b2b-saas, 2 policies, 1 seed: 2 runs, about 16 requests, about 1 s; Ctrl-C shows the finished runs\n",
    );
    expect(out).toMatch(/^b2b-saas: 150 customers/);
    expect(out).toContain("\nAt 4 requests/s, one seed\npolicy ");
    expect(out).toMatch(/\nround-robin +\S+ m?s /);
    expect(out).toMatch(/\ndefault +\S+ m?s /);
    expect(out).toMatch(
      /\nSpeed of the simulation: [\d,]+ requests per second of real time with the scheduler, [\d,]+ without/,
    );
    expect(out).not.toMatch(/NaN|undefined|PARTIAL/);
  });

  it("gives the same study for the same seed, as JSON, with progress beside it", async () => {
    const study = async (): Promise<{ runs: { seconds: number }[] }> => {
      const { out, err } = await run([...TINY, "--json"]);
      expect(err).toContain("2 runs");
      const { speed, ...rest } = JSON.parse(out);
      expect(speed.requestsPerSecond).toBeGreaterThan(0);
      return { ...rest, runs: rest.runs.map((one: object) => ({ ...one, seconds: 0 })) };
    };
    const first = await study();
    expect(first).toMatchObject({
      ...{ partial: false, seeds: [1], workloads: [{ name: "b2b-saas", servers: 2, rates: [4], durationMs: 2000 }] },
      runs: [{ policy: "round-robin", samples: [] }, { policy: "default" }],
    });
    expect(await study()).toEqual(first);
  });

  it("warms up before it measures, unless it is to begin cold", async () => {
    const args = ["--rate", "4", "--duration", "2s", "--seeds", "1", "--policy", "default"];
    const warm = await run(args);
    expect(warm.err).toContain("1 run, about 758 requests");
    expect(warm.out.replace(/\s+/g, " ")).toContain(
      "2 s of arrivals at 4 requests/s; warm-up before: 50 s at 15 requests/s, then 60 s until its answers end;",
    );
    const cold = await run([...args, "--cold"]);
    expect(cold.err).toContain("1 run, about 8 requests");
    expect(cold.out).not.toContain("warm-up");
    const hits = async (...more: string[]): Promise<{ requests: number; hitRate: number }> =>
      JSON.parse((await run([...args, "--json", ...more])).out).runs[0];
    const [first, second] = [await hits(), await hits("--cold")];
    // Those of the warm-up are not among them, and what they left in the caches is.
    expect(Math.max(first.requests, second.requests)).toBeLessThan(30);
    expect(first.hitRate).toBeGreaterThan(second.hitRate);
  });

  it("takes workloads and configuration files, and writes a report with the loads over time", async () => {
    const config = file("mine.yaml", "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: []\n");
    const html = join(folder, "report.html");
    const args = ["low-prefix-share", "bursts", ...TINY, "--config-file", config, "--html", html, "--quiet"];
    const { out, err, error } = await run(args);
    expect([error, err]).toEqual([undefined, ""]);
    expect(out).toContain("low-prefix-share: ");
    expect(out).toContain("bursts: ");
    expect(out).toContain("\nmine.yaml ");
    const page = readFileSync(html, "utf8");
    expect(page).toContain("mine.yaml");
    expect(page).toContain("bursts");
  });

  it("ends with what is finished when it is interrupted, and says so", async () => {
    const args = ["--rate", "20", "--duration", "20s", "--policy", "round-robin", "default", "--seeds", "20"];
    let seen = "";
    let stopped = false;
    const { out, status } = await run(args, true, (text) => {
      seen += text;
      if (!stopped && /run ([3-9]|\d\d) of 40/.test(text)) stopped = process.emit("SIGINT", "SIGINT");
    });
    expect(seen).toContain("\r\u001b[2K");
    expect(out).toMatch(/\n\nPARTIAL: \d+ of 40 runs were complete when the study ended\.\n$/);
    expect(status).toBe(130);
  });

  it("lists what can be named, for people and for programs", async () => {
    const { out } = await run(["--list"]);
    expect(out).toMatch(/^workloads\n {2}b2b-saas {2,}\S/);
    expect(out).toMatch(/\n\npolicies, and --config-file FILE\n {2}round-robin {2,}each server in turn/);
    expect(out).toMatch(/\n\nengine presets\n {2}qwen3-32b-2xh100 {2,}\S/);
    expect(Math.max(...out.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);
    const { workloads, policies, presets } = JSON.parse((await run(["--list", "--json"])).out);
    expect(workloads[0]).toMatchObject({ name: "b2b-saas", servers: 8, rateUnit: "requests/s" });
    expect(policies[0].name).toBe("round-robin");
    expect(presets[0].config.tokenBudget).toBe(8192);
  });

  it("tells recorded traffic what another policy would have done with it", async () => {
    const lines = Array.from({ length: 8 }, (_, i) =>
      JSON.stringify({
        ...{ start_time: `2026-01-01T00:00:0${i}.000Z`, method: "POST", path: "/v1/completions", response_code: 200 },
        ...{ upstream_host: `10.0.0.${1 + (i % 2)}:8000`, prompt_tokens: 500, completion_tokens: 20 },
      }),
    );
    const log = file("access.jsonl", `${lines.join("\n")}\n`);
    const html = join(folder, "replay.html");
    const { out, error, status } = await run(["--replay", log, "--profile", "sticky-until-saturated", "--html", html]);
    expect([error, status]).toEqual([undefined, 0]);
    expect(out).toContain("sticky-until-saturated");
    expect(out).toContain("round-robin");
    expect(readFileSync(html, "utf8")).toContain("sticky-until-saturated");
    const json = JSON.parse((await run(["--replay", log, "--json", "--servers", "3", "--quiet"])).out);
    expect(json).toMatchObject({ partial: false, traffic: { study: { workloads: [{ servers: 3 }] } } });
  });

  it.each<[string, readonly string[], string]>([
    ["an unknown workload", ["b2b-sas"], 'FLAG_VALUE: "b2b-sas" is not a known workload; did you mean `b2b-saas`?'],
    ["a list of something", ["--list", "bursts"], "FLAG_CONFLICT: --list lists everything: remove the workload"],
    ["a list with a flag", ["--list", "--quick"], "FLAG_CONFLICT: --quick has no effect with --list: remove it"],
    ["a profile without a replay", ["--profile", "default"], "FLAG_CONFLICT: --profile works only with --replay FILE"],
    ["fields without a replay", ["--field", "a=b"], "FLAG_CONFLICT: --field works only with --replay FILE"],
    [
      ...(["a replay of a workload", ["bursts", "--replay", "x"]] as const),
      "FLAG_CONFLICT: --replay plays the requests in its files: remove the workload",
    ],
    [
      ...(["a replay with a duration", ["--replay", "x", "--duration", "1s"]] as const),
      "FLAG_CONFLICT: --duration has no effect with --replay: the files decide; remove it",
    ],
    [
      ...(["a replay without a warm-up", ["--replay", "x", "--cold"]] as const),
      "FLAG_CONFLICT: --cold has no effect with --replay: the files decide; remove it",
    ],
    [
      ...(["a replay with two configurations", ["--replay", "x", "--config-file", "a", "b"]] as const),
      "FLAG_CONFLICT: --replay tries one configuration: give one --config-file",
    ],
    [
      ...(["a replay at two rates", ["--replay", "x", "--rate", "1", "2"]] as const),
      "FLAG_CONFLICT: --replay plays at one rate: give one --rate, or omit --rate for the recorded rate",
    ],
    [
      ...(["an endless prompt", ["--replay", "x", "--prompt-tokens", "0"]] as const),
      'FLAG_VALUE: --prompt-tokens is "0"; give a whole number from 1 to 1000000',
    ],
    ["a report nowhere", ["--html", join(folder, "no", "where.html")], "FLAG_VALUE: --html "],
    ["a report in place of a folder", ["--html", folder], `FLAG_VALUE: --html ${folder} is a directory`],
    ["a configuration that is none", [...TINY, "--config-file", join(folder, "none.yaml")], "DOCUMENT_"],
  ])("refuses %s before anything runs", async (_, args, told) => {
    const { out, err, error } = await run(args);
    expect(error).toContain(told);
    expect([out, err]).toEqual(["", ""]);
  });
});

describe("sluice simulate --trace", () => {
  const rows = [0, 500, 1000, 2500, 4000].map((timestamp, i) =>
    JSON.stringify({ timestamp, input_length: 1100, output_length: 5, hash_ids: [1, 2, 10 + i] }),
  );
  const trace = file("trace.jsonl", `${rows.join("\n")}\nbroken\n`);
  const POLICIES = ["--servers", "2", "--policy", "round-robin", "llm-d-defaults", "llm-d-optimized-baseline"];

  it("says what it read, plays it, and shows a table", async () => {
    const { out, err, error, status } = await run(["--trace", trace, ...POLICIES]);
    expect([error, status]).toEqual([undefined, 0]);
    expect(err).toContain("trace, 3 policies, 1 seed: 3 runs, about 15 requests");
    const text = out.replace(/\s+/g, " ");
    expect(text).toContain("trace.jsonl (Mooncake): 6 rows read, 5 requests to play;");
    expect(text).toContain(
      "at most 40,960 tokens. 74 % of the prompt tokens are in blocks that an earlier request had.",
    );
    expect(text).toContain("1 row not used: not a JSON object (the first is line 6).");
    expect(text).toContain("2 servers of qwen3-32b-2xh100; 4.001 s of arrivals at 1.25 requests/s;");
    expect(out).toMatch(/\nllm-d-optimized-baseline +\S+ m?s /);
    expect(out).not.toMatch(/NaN|undefined|PARTIAL/);
  });

  it("finds the shared blocks in the caches, and gives the summary as JSON", async () => {
    const args = ["--trace", trace, "--json", "--quiet", "--servers", "1", "--policy", "default"];
    const { out } = await run([...args, "--speed", "2", "--window", "400ms..3s", "--engine", ENGINE]);
    const { runs, trace: read, workloads } = JSON.parse(out);
    expect(read).toMatchObject({ requests: 3, before: 1, stopped: "window", speed: 2, format: "Mooncake" });
    expect(workloads).toMatchObject([{ name: "trace", preset: ENGINE, durationMs: 1051 }]);
    // Two of three prompts begin with 1,024 cached tokens.
    expect(runs[0]).toMatchObject({ requests: 3, finished: 3, hitRate: 2048 / 3300 });
  });

  it("leaves out what is longer than the context", async () => {
    const short = await run(["--trace", trace, ...POLICIES, "--max-model-len", "1104"]);
    expect(short.error).toContain("TRACE_INPUT: ");
    expect(short.error).toContain("line 1: prompt and answer longer than the context of the engine");
    expect((await run(["--trace", trace, ...POLICIES, "--max-model-len", "1105", "--quiet"])).error).toBeUndefined();
  });

  it("lets the engine take prompts as long as --max-model-len", async () => {
    const long = file("long.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,50000,2\n");
    const args = ["--trace", long, "--servers", "1", "--policy", "default", "--quiet", "--json"];
    expect((await run(args)).error).toContain("prompt and answer longer than the context of the engine");
    const { runs } = JSON.parse((await run([...args, "--max-model-len", "60000"])).out);
    expect(runs).toMatchObject([{ requests: 1, finished: 1, promptTokens: 50_000 }]);
  });

  const ENGINE = file("engine.yaml", "preset: qwen3-32b-2xh100\napiMs: 10\ncost: {attention: 2e-6}\n");

  it("takes the engine of a file for workloads, too", async () => {
    const { out, error } = await run([...TINY, "--engine", ENGINE]);
    expect(error).toBeUndefined();
    expect(out).toContain(`2 servers of ${ENGINE}`);
  });

  it.each([
    ["a window without a trace", ["--window", "5m"], "FLAG_CONFLICT: --window works only with --trace FILE"],
    [
      "a speed beside recordings",
      ["--replay", "x", "--speed", "2"],
      "FLAG_CONFLICT: --speed works only with --trace FILE",
    ],
    ["two sources", ["--trace", trace, "--replay", "x"], "FLAG_CONFLICT: --trace and --replay exclude each other"],
    ["a workload", ["bursts", "--trace", trace], "FLAG_CONFLICT: --trace plays the requests in its file"],
    ["a rate", ["--trace", trace, "--rate", "5"], "FLAG_CONFLICT: --rate has no effect with --trace"],
    ["a duration", ["--trace", trace, "--duration", "5s"], "FLAG_CONFLICT: --duration has no effect with --trace"],
    ["quick", ["--trace", trace, "--quick"], "FLAG_CONFLICT: --quick has no effect with --trace"],
    ["fields of a log", ["--trace", trace, "--field", "a=b"], "FLAG_CONFLICT: --field works only with --replay FILE"],
    ["a list", ["--list", "--trace", trace], "FLAG_CONFLICT: --trace has no effect with --list"],
    ["no speed", ["--trace", trace, "--speed", "0"], 'FLAG_VALUE: --speed is "0"; give a factor from 0.01 to 1000'],
    ["no window", ["--trace", trace, "--window", "2m..1m"], 'FLAG_VALUE: --window is "2m..1m"; give the length'],
    ["an open window", ["--trace", trace, "--window", "2m.."], 'FLAG_VALUE: --window is "2m.."; give the length'],
    ["three times", ["--trace", trace, "--window", "1s..2s..3s"], "FLAG_VALUE: --window is "],
    ["a negative window", ["--trace", trace, "--window", "-1m..1m"], "FLAG_VALUE: --window is "],
    ["no context", ["--trace", trace, "--max-model-len", "1"], 'FLAG_VALUE: --max-model-len is "1"'],
    [
      ...(["a context that no cache holds", ["--trace", trace, "--max-model-len", "400000"]] as const),
      "FLAG_VALUE: --max-model-len is 400000, but the KV cache of qwen3-32b-2xh100 has 307328 tokens; give at most that",
    ],
    ["an unknown policy", ["--trace", join(folder, "none"), "--policy", "rr"], "FLAG_VALUE: --policy "],
    ["a trace that does not exist", ["--trace", join(folder, "none")], "DOCUMENT_MISSING: "],
    ["a misspelt engine", ["--trace", trace, "--engine", "qwen3-32b-2xh10"], "did you mean `qwen3-32b-2xh100`?"],
    ["an engine file that does not exist", ["--engine", join(folder, "no.yaml")], "DOCUMENT_MISSING: "],
  ])("refuses %s before anything runs", async (_, args, told) => {
    const { out, err, error } = await run(args);
    expect(error).toContain(told);
    expect([out, err]).toEqual(["", ""]);
  });
});

describe("docs/use/simulate.md", () => {
  const page = readFileSync(new URL("../../../docs/use/simulate.md", import.meta.url), "utf8");

  it("has the policies and engines that there are, with their figures", async () => {
    const { policies, presets } = JSON.parse((await run(["--list", "--json"])).out);
    for (const { name } of policies) expect(page).toContain(`\`${name}\``);
    for (const { name, config } of presets) {
      const cells = page
        .split("\n")
        .find((line) => line.startsWith(`| \`${name}\``))!
        .split("|")
        .map((cell) => cell.trim());
      const [a, b, b2, c, d] = cells.slice(2, 7).map(milliseconds);
      const { base, prefill, attention, context, sequence } = config.cost;
      // The page has three digits.
      for (const [told, used] of [
        [a, base],
        [b, prefill],
        [b2, attention],
        [c, context],
        [d, sequence],
      ])
        expect(Math.abs(told - used)).toBeLessThanOrEqual(used / 1000);
      const [kv, step, sequences] = cells.slice(7, 10).map((cell) => Number(cell.replace(/,| tokens/g, "")));
      expect([kv, step, sequences]).toEqual([
        config.kvBlocks * config.blockSize,
        config.tokenBudget,
        config.maxNumSeqs,
      ]);
    }
  });

  it("names options that the command has", () => {
    const known = new Set(simulateCommand().options.map(({ long }) => long));
    // Of `sluice explain`.
    for (const other of ["--all", "--full"]) known.add(other);
    expect([...new Set(page.match(/--[a-z-]+\w/g))].filter((option) => !known.has(option))).toEqual([]);
  });
});

/** `4.4 us`, `13.5 ms`. */
function milliseconds(text: string): number {
  const [figure = "", unit = "ms"] = text.split(" ");
  return Number(figure) * ({ ms: 1, us: 0.001 }[unit] ?? Number.NaN);
}
