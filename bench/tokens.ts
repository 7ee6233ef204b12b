/**
 * How long a prompt of 1, 16 and 400 KB takes to become tokens on one core: in this process without remembered beginnings, with them,
 * through a worker thread as a request takes them, and by the Rust library in Python. The texts are sources of this repository.
 *
 *     node bench/tokens.ts [--model NAME...] [--rounds NUMBER]
 *
 * It fails when the threads give other tokens than the Rust library, when a remembered prompt of 400 KB takes more than half of the
 * time, or when a prompt that is new takes more than 5 times that of the Rust library.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { pythonTokenizers, tokenizerFiles } from "../scripts/test-parts.ts";
import { realClock } from "../src/base/clock/real.ts";
import { readModelFiles } from "../src/picker/tokenizers/model-files.ts";
import { ModelTokenizer } from "../src/picker/tokenizers/model-tokenizer.ts";
import { WorkerPool } from "../src/picker/tokenizers/worker-pool.ts";

const { values } = parseArgs({
  options: { model: { type: "string", multiple: true }, rounds: { type: "string", default: "7" } },
});
const models = values.model ?? ["qwen3", "llama3_1", "gemma3"];
const rounds = Number(values.rounds);
const TEMPLATE = { format: "auto", kwargs: {} } as const;
const CACHE = 2 ** 26;

const source = join(import.meta.dirname, "..", "src");
const all = readdirSync(source, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts"))
  .sort()
  .map((name) => readFileSync(join(source, name), "utf8"))
  .join("\n");
const texts = [1024, 16 * 1024, 400 * 1024].map((bytes) => all.slice(1_000_000, 1_000_000 + bytes));

const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]!;

/** Median milliseconds of some runs, after one that is not counted. */
async function timed(run: (round: number) => unknown): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const began = performance.now();
    await run(round);
    if (round > 0) times.push(performance.now() - began);
  }
  return median(times);
}

let holds = true;
console.log(`${rounds} rounds, medians; milliseconds, and the ratio to the Rust library (Python) in the same run`);
for (const model of models) {
  const path = join(tokenizerFiles(model), "tokenizer.json");
  const began = performance.now();
  const files = readModelFiles(path, undefined);
  const plain = new ModelTokenizer(files, 0, TEMPLATE);
  const loaded = performance.now() - began;
  const remembering = new ModelTokenizer(files, CACHE, TEMPLATE);
  const pool = new WorkerPool({
    ...{ clock: realClock, workers: 1 },
    settings: { cacheBytes: CACHE, chatTemplate: undefined, ...TEMPLATE },
  });
  await pool.load(path);
  const python = spawnSync("python3", [join(import.meta.dirname, "tokens.py")], {
    input: JSON.stringify({ path, texts, rounds }),
    env: { ...process.env, PYTHONPATH: pythonTokenizers(), TOKENIZERS_PARALLELISM: "false" },
    encoding: "utf8",
  });
  const rust = JSON.parse(python.stdout) as { ms: number; tokens: number }[];
  console.log(`\n${model}: tokenizer ready after ${loaded.toFixed(0)} ms`);
  console.log("    size   tokens    Rust     new  ratio  tokens/s  remembered  ratio  through a thread");
  for (const [i, text] of texts.entries()) {
    const { ms, tokens } = rust[i]!;
    const fresh = await timed(() => plain.text(text, false));
    const again = await timed(() => remembering.text(text, false));
    const bytes = Buffer.from(JSON.stringify({ prompt: text, add_special_tokens: false }));
    let counted = 0;
    const thread = await timed(async () => {
      const job = { path, api: "completions", body: Uint8Array.from(bytes), media: [] } as const;
      counted = (await pool.tokens(model, job, new AbortController().signal))!.count;
    });
    holds &&= counted === tokens && fresh <= 5 * ms && (i < 2 || again <= fresh / 2);
    const columns = [
      `${(text.length / 1024).toFixed(0)} KB`.padStart(8),
      String(tokens).padStart(9),
      ms.toFixed(2).padStart(8),
      fresh.toFixed(2).padStart(8),
      (fresh / ms).toFixed(2).padStart(7),
      ((1000 * tokens) / fresh).toFixed(0).padStart(10),
      again.toFixed(2).padStart(12),
      (again / ms).toFixed(2).padStart(7),
      thread.toFixed(2).padStart(18),
    ];
    console.log(columns.join(""));
  }
  pool.close();
}
console.log(holds ? "\nPASS" : "\nFAIL");
process.exit(holds ? 0 : 1);
