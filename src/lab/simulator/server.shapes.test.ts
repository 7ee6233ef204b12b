import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { ask } from "../../../test/support/client.ts";
import { parseSimOptions } from "./options.ts";
import { type Simulator, startSimulator } from "./server.ts";

const CHAT = "/v1/chat/completions";
const TEXT = "/v1/completions";

// The objects of the OpenAI API reference, members it requires required, members it does not know refused.
const count = z.int().min(0);
const usage = z.strictObject({
  prompt_tokens: count,
  completion_tokens: count,
  total_tokens: count,
  prompt_tokens_details: z.strictObject({ cached_tokens: count }),
});
const reason = z.enum(["stop", "length"]);
const base = { created: z.int().min(1_600_000_000), model: z.literal("sim") };
const chatId = z.string().regex(/^chatcmpl-.+/);
const textId = z.string().regex(/^cmpl-.+/);

const chatCompletion = z.strictObject({
  ...base,
  id: chatId,
  object: z.literal("chat.completion"),
  choices: z.array(
    z.strictObject({
      index: count,
      message: z.strictObject({ role: z.literal("assistant"), content: z.string().min(1), refusal: z.null() }),
      logprobs: z.null(),
      finish_reason: reason,
    }),
  ),
  usage,
});
const chatChunk = z.strictObject({
  ...base,
  id: chatId,
  object: z.literal("chat.completion.chunk"),
  choices: z.array(
    z.strictObject({
      index: count,
      delta: z.strictObject({ role: z.literal("assistant").optional(), content: z.string().optional() }),
      logprobs: z.null(),
      finish_reason: reason.nullable(),
    }),
  ),
  usage: usage.nullable().optional(),
});
const textCompletion = z.strictObject({
  ...base,
  id: textId,
  object: z.literal("text_completion"),
  choices: z.array(
    z.strictObject({ index: count, text: z.string(), logprobs: z.null(), finish_reason: reason.nullable() }),
  ),
  usage: usage.nullable().optional(),
});

type Chunk = Omit<z.infer<typeof chatChunk>, "choices" | "object"> & {
  readonly choices: readonly (
    | z.infer<typeof chatChunk>["choices"][number]
    | z.infer<typeof textCompletion>["choices"][number]
  )[];
};

async function start(): Promise<Simulator> {
  const instant = { "prefill-overhead": 0, "prefill-time-per-token": 0, "inter-token-latency": 0 };
  const simulator = await startSimulator(parseSimOptions({ port: 0, host: "127.0.0.1", ...instant }));
  onTestFinished(() => simulator.close());
  return simulator;
}

const asked = async (sim: Simulator, path: string, body: object): Promise<string> =>
  (await ask(sim.url + path, { body: JSON.stringify(body) })).text;

/** The value of a sample of the model, as a sum over its other labels. */
async function counted(sim: Simulator, name: string): Promise<number> {
  const { text } = await ask(`${sim.url}/metrics`);
  const values = [...text.matchAll(new RegExp(`^vllm:${name}\\{model_name="sim"[^}]*\\} (\\S+)$`, "gm"))];
  return values.reduce((sum, [, value]) => sum + Number(value), 0);
}

/** The events of a stream but the last, which must be [DONE]. */
function events(schema: typeof chatChunk | typeof textCompletion, text: string): Chunk[] {
  const parts = text.split("\n\n");
  expect(parts.slice(-2)).toEqual(["data: [DONE]", ""]);
  return parts.slice(0, -2).map((part) => {
    expect(part).toMatch(/^data: /);
    return schema.parse(JSON.parse(part.slice(6)));
  });
}

describe.each([
  ["chat", CHAT, { messages: [{ role: "user", content: "How are you today?" }] }, chatCompletion, chatChunk],
  ["text", TEXT, { prompt: "How are you today?" }, textCompletion, textCompletion],
] as const)("D-61: the field shapes of a %s completion", (_name, path, input, whole, chunk) => {
  const wanted = { ...input, max_tokens: 7, ignore_eos: true, seed: 3 };

  it("not streamed: usage sums up, and to what the counters say", async () => {
    const sim = await start();
    const body = whole.parse(JSON.parse(await asked(sim, path, wanted)));
    const { prompt_tokens, completion_tokens, total_tokens } = body.usage!;
    expect(body.choices.map(({ index, finish_reason }) => [index, finish_reason])).toEqual([[0, "length"]]);
    expect(completion_tokens).toBe(7);
    expect(prompt_tokens).toBeGreaterThan(0);
    expect(total_tokens).toBe(prompt_tokens + completion_tokens);
    expect(await counted(sim, "prompt_tokens_total")).toBe(prompt_tokens);
    expect(await counted(sim, "generation_tokens_total")).toBe(completion_tokens);
    expect(await counted(sim, "request_success_total")).toBe(1);
  });

  it.each([true, false])("streamed, with usage asked for: %s", async (include) => {
    const sim = await start();
    const first = whole.parse(JSON.parse(await asked(sim, path, wanted)));
    const more = { stream: true, stream_options: { include_usage: include } };
    const all = events(chunk, await asked(sim, path, { ...wanted, ...more }));
    expect(new Set(all.map(({ id }) => id)).size).toBe(1);
    expect(new Set(all.map(({ created }) => created)).size).toBe(1);
    const said = all.flatMap(({ choices }) => choices);
    expect(said.map(({ finish_reason }) => finish_reason).filter(Boolean)).toEqual(["length"]);
    const text = said.map((choice) => ("text" in choice ? choice.text : (choice.delta.content ?? ""))).join("");
    const answer = first.choices[0]!;
    expect(text).toBe("text" in answer ? answer.text : answer.message.content);
    // Null on every chunk but an additional last one without choices; no member at all when it was not asked for.
    const usages = all.map((event) => event.usage);
    if (include) {
      expect(usages.slice(0, -1)).toEqual(usages.slice(0, -1).map(() => null));
      expect(all.at(-1)!.choices).toEqual([]);
      const { prompt_tokens, completion_tokens, total_tokens } = first.usage!;
      expect(usages.at(-1)).toMatchObject({ prompt_tokens, completion_tokens, total_tokens });
    } else expect(usages.every((value) => value === undefined)).toBe(true);
  });

  it("of several answers: every index once, usage over all of them", async () => {
    const sim = await start();
    const one = whole.parse(JSON.parse(await asked(sim, path, wanted)));
    const three = whole.parse(JSON.parse(await asked(sim, path, { ...wanted, n: 3 })));
    expect(three.choices.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(three.usage).toMatchObject({
      prompt_tokens: one.usage!.prompt_tokens,
      completion_tokens: 21,
      total_tokens: one.usage!.prompt_tokens + 21,
    });
  });
});

it("D-61: /v1/models and errors have the shapes of the API, too", async () => {
  const sim = await start();
  const model = z.object({ id: z.string(), object: z.literal("model"), created: z.int(), owned_by: z.string() });
  const list = z.strictObject({ object: z.literal("list"), data: z.array(model).min(1) });
  list.parse(JSON.parse((await ask(`${sim.url}/v1/models`)).text));
  const error = z.strictObject({ message: z.string(), type: z.string(), param: z.null(), code: z.int() });
  z.strictObject({ error }).parse(JSON.parse(await asked(sim, CHAT, [])));
});
