import { afterEach, expect, it, vi } from "vitest";
import { requestOf } from "../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import type { Tokenizers } from "../../base/plugin/tokenizers.ts";
import { silentLogger } from "../../base/telemetry/logger.ts";
import { ModelPaths } from "./model-paths.ts";
import { startTokenizers } from "./start.ts";

const open: Tokenizers[] = [];
afterEach(() => {
  for (const one of open.splice(0)) one.close();
  vi.restoreAllMocks();
});

/** Tokenizers whose volume of models hangs. */
function setUp(): (bytes: number, signal: AbortSignal) => Promise<unknown> {
  vi.spyOn(ModelPaths.prototype, "of").mockImplementation(
    (_model, signal) =>
      new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason), { once: true })),
  );
  const tokenizers = startTokenizers(
    {
      modelName: undefined,
      modelTokenizerMap: new Map(),
      directories: ["/models"],
      fileName: "tokenizer.json",
      workers: 1,
      cacheBytes: 0,
      chatTemplate: undefined,
      chatTemplateContentFormat: "auto",
      chatTemplateKwargs: {},
    },
    { clock: new VirtualClock(), log: silentLogger },
  );
  open.push(tokenizers);
  const headers = HeaderList.of([[":path", "/v1/completions"]]);
  return (bytes, signal) => tokenizers.tokens(requestOf("x".repeat(bytes), { headers }), [], signal);
}

const LONGEST = 2 ** 20;

it("a request waits for a volume that hangs as long as its signal says, and few bytes wait at a time", async () => {
  const tokens = setUp();
  const abort = new AbortController();
  const waiting = Array.from({ length: 64 }, () => tokens(LONGEST, abort.signal));
  await expect(tokens(1, abort.signal)).rejects.toMatchObject({ code: "TOKENIZER_FILE" });
  abort.abort(new Error("too late"));
  for (const one of waiting) await expect(one).rejects.toThrow("too late");
  const again = new AbortController();
  const later = tokens(LONGEST, again.signal);
  again.abort(new Error("later"));
  await expect(later).rejects.toThrow("later");
});

it("a body with more text than a worker manages in its time is refused", async () => {
  await expect(setUp()(LONGEST + 1, new AbortController().signal)).rejects.toMatchObject({ code: "TOKENIZER_LIMIT" });
});
