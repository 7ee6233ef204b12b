import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { SMALL_CONFIG, smallTokenizer, writeModel } from "../../../test/support/small-tokenizer.ts";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { LARGE_BYTES } from "./lanes.ts";
import { ModelTokenizer } from "./model-tokenizer.ts";
import { WorkerPool } from "./worker-pool.ts";
import { JOB_LIMIT, LOAD_LIMIT } from "./worker-slot.ts";

const SETTINGS = { cacheBytes: 2 ** 20, chatTemplate: undefined, format: "auto", kwargs: {} } as const;
const open: { close(): void }[] = [];
const folder = mkdtempSync(join(tmpdir(), "sluice-tokenizers-"));
afterEach(() => {
  for (const one of open.splice(0)) one.close();
});
process.once("exit", () => rmSync(folder, { recursive: true, force: true }));

function poolOf(options: { clock?: VirtualClock; workers?: number; program?: URL } = {}): WorkerPool {
  const pool = new WorkerPool({ clock: realClock, workers: 1, settings: SETTINGS, ...options });
  open.push(pool);
  return pool;
}

const never = new AbortController().signal;

function jobOf(path: string, prompt: unknown, media: { token: number; count: number }[] = []) {
  const body = Uint8Array.from(Buffer.from(JSON.stringify({ prompt })));
  return { path, api: "completions", body, media } as const;
}

/** A program of workers that does what the path of a job says. */
const FAKE = new URL(
  `data:text/javascript,${encodeURIComponent(`
import { parentPort } from "node:worker_threads";
const counts = { hits: 0, misses: 0, cacheBytes: 0 };
parentPort.on("message", ({ id, path, body }) => {
  if (path === "dies") process.exit(1);
  if (path === "throws") throw new Error("broken");
  if (path === "hangs") for (;;);
  if (path === "broken") parentPort.postMessage({ id, counts, fault: "file", message: "no JSON" });
  else parentPort.postMessage({ id, counts, tokens: new Uint8Array(4), prompts: [{ start: 0, end: 4 }], count: 1 });
});`)}`,
);

const numbers = ({ tokens }: { readonly tokens: Uint8Array }): number[] => [
  ...new Uint32Array(Uint8Array.from(tokens).buffer),
];

async function plain(pool: WorkerPool, path: string, prompt: string): Promise<number[]> {
  return numbers((await pool.tokens("m", jobOf(path, prompt), never))!);
}

describe("worker threads that tokenize", () => {
  it("give the tokens of the model's tokenizer, and count what they remember", async () => {
    const path = writeModel(join(folder, "one"));
    const pool = poolOf();
    await pool.load(path);
    const library = new ModelTokenizer(
      { tokenizer: smallTokenizer(), config: SMALL_CONFIG, model: {}, chatTemplate: undefined },
      0,
      { format: "auto", kwargs: {} },
    );
    for (let i = 0; i < 2; i++) {
      const found = await pool.tokens("m", jobOf(path, ["the quick", "fox"]), never);
      expect(numbers(found!)).toEqual([...library.text("the quick", true), ...library.text("fox", true)]);
      expect(found!.prompts).toHaveLength(2);
      expect(found!.prompts[1]).toEqual({
        start: 4 * library.text("the quick", true).length,
        end: found!.tokens.length,
      });
    }
    expect(pool.state().cache.hits).toBe(2);
    expect(await pool.tokens("m", jobOf(path, ""), never)).toBeUndefined();
  });

  it("put the number of each image in the place of its token", async () => {
    const path = writeModel(join(folder, "images"));
    const pool = poolOf();
    const media = [
      { token: 4_000_000_001, count: 2 },
      { token: 4_000_000_002, count: 1 },
    ];
    const found = await pool.tokens("m", jobOf(path, "a<|image|>b<|image|>", media), never);
    const [a, first, again, b, second] = numbers(found!);
    expect([first, again, second]).toEqual([4_000_000_001, 4_000_000_001, 4_000_000_002]);
    expect([a, b]).toEqual([...(await plain(pool, path, "a")), ...(await plain(pool, path, "b"))]);
    expect(found!.count).toBe(5);
    for (const prompt of ["a<|image|>", "<|image|><|image|><|image|>"])
      await expect(pool.tokens("m", jobOf(path, prompt, media), never)).rejects.toMatchObject({
        code: "TOKENIZER_REQUEST",
      });
  });

  it("say what is wrong with files and requests, without the prompt", async () => {
    const pool = poolOf();
    const broken = writeModel(join(folder, "broken"), { tokenizer: "{" });
    await expect(pool.tokens("m", jobOf(broken, "x"), never)).rejects.toMatchObject({ code: "TOKENIZER_FILE" });
    await expect(pool.tokens("m", jobOf(broken, "x"), never)).rejects.toThrow(/not used for one minute: .*is not JSON/);
    const path = writeModel(join(folder, "fine"));
    await expect(pool.tokens("m", jobOf(path, { secret: 1 }), never)).rejects.toThrow(
      /^no tokens for a request to m: the prompt is/,
    );
    const unreadable = { ...jobOf(path, ""), body: Uint8Array.from(Buffer.from("secret")) };
    await expect(pool.tokens("m", unreadable, never)).rejects.toThrow(/: an error of type SyntaxError$/);
    expect(await pool.tokens("m", jobOf(path, "x"), never)).toMatchObject({ count: 1 });
    expect(pool.state().resting).toHaveLength(1);
  });

  it.each(["dies", "throws"])("are replaced when one %s: only its own request fails", async (how) => {
    const pool = poolOf({ program: FAKE });
    await pool.tokens("good", jobOf("good", "x"), never);
    const lost = pool.tokens("bad", jobOf(how, "x"), never);
    const after = pool.tokens("good", jobOf("good", "x"), never);
    await expect(lost).rejects.toMatchObject({ code: "TOKENIZER_FAILED" });
    expect(await after).toMatchObject({ count: 1 });
    expect(pool.state().replaced).toBe(1);
  });

  it("that hang are replaced after ten seconds, or a minute while they load", async () => {
    const clock = new VirtualClock();
    const pool = poolOf({ program: FAKE, clock });
    const lost = pool.tokens("bad", jobOf("hangs", "x"), never);
    const after = pool.tokens("good", jobOf("good", "x"), never);
    await clock.advanceAsync(LOAD_LIMIT - 1);
    expect(pool.state()).toMatchObject({ replaced: 0, waiting: { small: 1 } });
    await clock.advanceAsync(1);
    await expect(lost).rejects.toThrow(/took too long/);
    expect(await after).toMatchObject({ count: 1 });
    expect(pool.state().replaced).toBe(1);
    expect(JOB_LIMIT).toBe(10_000);
    await poll("no timer is left", () => clock.pending === 0);
  });

  it("leave a model alone for a minute whose tokenizer cost two of them, and serve the others", async () => {
    const clock = new VirtualClock();
    const pool = poolOf({ program: FAKE, clock });
    await pool.tokens("good", jobOf("good", "x"), never);
    const cost = async (): Promise<void> => {
      await expect(pool.tokens("bad", jobOf("dies", "x"), never)).rejects.toMatchObject({ code: "TOKENIZER_FAILED" });
      await pool.tokens("good", jobOf("good", "x"), never);
    };
    await cost();
    await cost();
    await expect(pool.tokens("bad", jobOf("dies", "x"), never)).rejects.toThrow(
      /not used for one minute: it made a worker end/,
    );
    expect(pool.state()).toMatchObject({ replaced: 2, resting: [{ path: "dies" }] });
    await clock.advanceAsync(60_000);
    await cost();
    expect(pool.state().replaced).toBe(3);
  });

  it("go on with a model whose large prompts took too long: only small ones tell that it hangs", async () => {
    const clock = new VirtualClock();
    const pool = poolOf({ program: FAKE, clock });
    for (const [prompt, resting] of [
      ["x".repeat(LARGE_BYTES), 0],
      ["x".repeat(LARGE_BYTES), 0],
      ["x", 0],
      ["x", 1],
    ] as const) {
      const lost = pool.tokens("m", jobOf("hangs", prompt), never);
      await clock.advanceAsync(LOAD_LIMIT);
      await expect(lost).rejects.toThrow(/took too long/);
      expect(pool.state().resting).toHaveLength(resting);
    }
    expect(pool.state().replaced).toBe(4);
  });

  it("that the system does not start are tried again later", async () => {
    const clock = new VirtualClock();
    // Node.js refuses such a program with an error at once, as it does where a thread cannot be made.
    const pool = poolOf({ program: new URL("http://127.0.0.1/none"), clock });
    expect([pool.state().replaced, clock.pending]).toEqual([1, 1]);
    await clock.advanceAsync(1000);
    expect([pool.state().replaced, clock.pending]).toEqual([2, 1]);
    pool.close();
    expect(clock.pending).toBe(0);
  });

  it("start a worker again later that died before its first answer", async () => {
    const clock = new VirtualClock();
    const pool = poolOf({ program: new URL("data:text/javascript,process.exit(1)"), clock });
    await poll("its end", () => pool.state().replaced === 1);
    expect(clock.pending).toBe(1);
    await clock.advanceAsync(1000);
    await poll("its second end", () => pool.state().replaced === 2);
    await clock.advanceAsync(1999);
    expect(pool.state()).toMatchObject({ replaced: 2, busy: 1 });
    pool.close();
    expect(clock.pending).toBe(0);
  });

  it("forget a request that is given up while it waits; too many are refused", async () => {
    const clock = new VirtualClock();
    const pool = poolOf({ program: FAKE, clock });
    const hanging = pool.tokens("bad", jobOf("hangs", "x"), never);
    const given = new AbortController();
    const waiting = pool.tokens("good", jobOf("good", "x"), given.signal);
    given.abort(new Error("over"));
    await expect(waiting).rejects.toThrow("over");
    expect(pool.state().waiting.small).toBe(0);
    const many = Array.from({ length: 1025 }, () => pool.tokens("good", jobOf("good", "x"), never));
    await expect(many.at(-1)).rejects.toMatchObject({ code: "TOKENIZER_LIMIT" });
    await clock.advanceAsync(LOAD_LIMIT);
    await expect(hanging).rejects.toMatchObject({ code: "TOKENIZER_FAILED" });
    expect(await Promise.all(many.slice(0, -1))).toHaveLength(1024);
    await expect(pool.tokens("good", jobOf("good", "x"), AbortSignal.abort(new Error("gone")))).rejects.toThrow("gone");
  });
});
