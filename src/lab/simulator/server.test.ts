import { describe, expect, it, onTestFinished } from "vitest";
import { ask } from "../../../test/support/client.ts";
import { freePort } from "../../../test/support/free-port.ts";
import { CHAT, hello, INSTANT, open, post, records, start, TEXT } from "../../../test/support/instant-simulator.ts";
import { poll } from "../../../test/support/poll.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { parseSimOptions } from "./options.ts";
import { type Simulator, startInstances, startSimulator } from "./server.ts";

/** The JSON of every event of a stream but the last, which is checked to be [DONE]. */
// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely
function events(text: string): any[] {
  const parts = text.split("\n\n");
  expect(parts.slice(-2)).toEqual(["data: [DONE]", ""]);
  return parts.slice(0, -2).map((part) => JSON.parse(part.replace(/^data: /, "")));
}

describe("D-61: shapes", () => {
  it("a chat, not streamed", async () => {
    const sim = await start();
    const { status, headers, text } = await post(sim, CHAT, hello({ max_tokens: 5, ignore_eos: true }));
    const body = JSON.parse(text);
    expect([status, headers["content-type"]]).toEqual([200, "application/json"]);
    expect(body).toMatchObject({
      object: "chat.completion",
      model: "sim",
      choices: [{ index: 0, message: { role: "assistant" }, logprobs: null, finish_reason: "length" }],
      usage: { completion_tokens: 5 },
    });
    expect(body.id).toMatch(/^chatcmpl-/);
    expect(body.choices[0].message.content.length).toBeGreaterThan(5);
    expect(body.usage.total_tokens).toBe(body.usage.prompt_tokens + 5);
    expect(body.usage.prompt_tokens_details).toEqual({ cached_tokens: 0 });
  });

  it("a chat, streamed: role, one chunk per token, the end, usage, [DONE]", async () => {
    const sim = await start();
    const wanted = hello({ max_tokens: 4, ignore_eos: true, stream: true, stream_options: { include_usage: true } });
    const { status, headers, text } = await post(sim, CHAT, wanted);
    expect([status, headers["content-type"]]).toEqual([200, "text/event-stream; charset=utf-8"]);
    const chunks = events(text);
    expect(chunks.map((chunk) => chunk.choices[0]?.delta)).toEqual([
      { role: "assistant", content: "" },
      ...Array.from({ length: 4 }, () => ({ content: expect.any(String) })),
      {},
      undefined,
    ]);
    expect(chunks.map((chunk) => chunk.choices[0]?.finish_reason)).toEqual([
      null,
      null,
      null,
      null,
      null,
      "length",
      undefined,
    ]);
    expect(new Set(chunks.map((chunk) => `${chunk.id} ${chunk.object} ${chunk.model}`)).size).toBe(1);
    expect(chunks[0].object).toBe("chat.completion.chunk");
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 4 } });
    const whole = JSON.parse((await post(sim, CHAT, hello({ max_tokens: 4 }))).text);
    expect(chunks.at(-1).usage.prompt_tokens).toBe(whole.usage.prompt_tokens);
  });

  it("streams no usage unless asked for it", async () => {
    const sim = await start();
    const { text } = await post(sim, CHAT, hello({ max_tokens: 2, stream: true }));
    expect(events(text).some((chunk) => "usage" in chunk)).toBe(false);
  });

  it("a text completion, streamed and not", async () => {
    const sim = await start();
    const wanted = { prompt: "a b c", max_tokens: 3, ignore_eos: true, seed: 5 };
    const whole = JSON.parse((await post(sim, TEXT, wanted)).text);
    expect(whole).toMatchObject({
      object: "text_completion",
      choices: [{ index: 0, logprobs: null, finish_reason: "length" }],
      usage: { prompt_tokens: 3, completion_tokens: 3, total_tokens: 6 },
    });
    const chunks = events((await post(sim, TEXT, { ...wanted, stream: true })).text);
    expect(chunks.map((chunk) => chunk.choices[0].text).join("")).toBe(whole.choices[0].text);
    expect(chunks.at(-1).choices[0]).toEqual({ index: 0, text: "", logprobs: null, finish_reason: "length" });
  });

  it.each([
    ["a string", "one two", 1, 2],
    ["strings", ["one two", "three"], 2, 3],
    ["token ids", [7, 8, 9], 1, 3],
    ["lists of token ids", [[7, 8], [9], [1, 2, 3]], 3, 6],
  ])("a prompt of %s", async (_name, prompt, choices, tokens) => {
    const sim = await start();
    const body = JSON.parse((await post(sim, TEXT, { prompt, max_tokens: 2, ignore_eos: true })).text);
    expect(body.choices.map((choice: { index: number }) => choice.index)).toEqual([...Array(choices).keys()]);
    expect(body.usage).toMatchObject({ prompt_tokens: tokens, completion_tokens: 2 * choices });
  });

  it("n answers to each prompt, streamed under their own indexes", async () => {
    const sim = await start();
    const wanted = {
      prompt: ["a", "b"],
      n: 2,
      max_tokens: 3,
      ignore_eos: true,
      stream: true,
      stream_options: { include_usage: true },
    };
    const chunks = events((await post(sim, TEXT, wanted)).text);
    for (let index = 0; index < 4; index++) {
      const own = chunks.filter((chunk) => chunk.choices[0]?.index === index);
      expect(own.map((chunk) => chunk.choices[0].finish_reason)).toEqual([null, null, null, "length"]);
    }
    expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 12 });
  });

  it("names itself in every response", async () => {
    const sim = await start({ "pod-name": "vllm-3", "pod-namespace": "models", "enable-request-id-headers": true });
    const { headers } = await post(sim, CHAT, hello(), { "x-request-id": "r-1" });
    expect(headers).toMatchObject({
      "x-inference-pod": "vllm-3",
      "x-inference-namespace": "models",
      "x-inference-port": String(sim.port),
      "x-request-id": "r-1",
    });
  });
});

describe("D-62: answers", () => {
  it("echo mode gives the last message back, letter by letter, streamed or not", async () => {
    const sim = await start({ mode: "echo" });
    const said = 'Tabs\t"quotes" \\ 東京 🙂\nand  two lines ';
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: [{ type: "text", text: said }] },
    ];
    const whole = JSON.parse((await post(sim, CHAT, { messages, max_tokens: 1 })).text);
    expect(whole.choices[0]).toMatchObject({ message: { content: said }, finish_reason: "stop" });
    const chunks = events((await post(sim, CHAT, { messages, stream: true })).text);
    expect(chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join("")).toBe(said);
  });

  it("D-72: same seed, same answers; another seed, others", async () => {
    const answers = async (seed: number): Promise<unknown[]> => {
      const sim = await start({ seed });
      const out: unknown[] = [];
      for (let i = 0; i < 5; i++) {
        const { choices, usage } = JSON.parse((await post(sim, CHAT, hello({ max_tokens: 60 }))).text);
        out.push(choices, usage);
      }
      return out;
    };
    expect(await answers(3)).toEqual(await answers(3));
    expect(await answers(3)).not.toEqual(await answers(4));
  });

  it("D-66: the same prompt again reports its cached tokens; a salt keeps prompts apart", async () => {
    const sim = await start();
    const prompt = "word ".repeat(100);
    const cached = async (more: object = {}): Promise<number> =>
      JSON.parse((await post(sim, TEXT, { prompt, max_tokens: 1, ...more })).text).usage.prompt_tokens_details
        .cached_tokens;
    expect([await cached(), await cached(), await cached({ cache_salt: "s" })]).toEqual([0, 96, 0]);
    const { text } = await ask(`${sim.url}/metrics`);
    expect(text).toContain('vllm:prefix_cache_hits_total{model_name="sim"} 96');
    expect(text).toContain('vllm:prefix_cache_queries_total{model_name="sim"} 300');
    expect((await post(sim, "/admin/reset", {})).status).toBe(200);
    expect((await ask(`${sim.url}/metrics`)).text).toContain('vllm:prefix_cache_queries_total{model_name="sim"} 0');
    expect([await cached(), (await records(sim)).length]).toEqual([0, 1]);
  });
});

describe("D-64: refusals", () => {
  const error = (status: number, type: string, param: string | null = null) => ({
    error: { message: expect.any(String), type, param, code: status },
  });

  it.each([
    ["an unknown model", CHAT, hello({ model: "nope" }), 404, "NotFoundError", "model"],
    ["a prompt beyond the context", TEXT, { prompt: "w ".repeat(60) }, 400, "BadRequestError", "prompt"],
    ["too many tokens asked for", CHAT, hello({ max_tokens: 50 }), 400, "BadRequestError", "messages"],
    ["no messages", CHAT, { messages: [] }, 400, "BadRequestError", "messages"],
    ["a message without role", CHAT, { messages: [{ content: "x" }] }, 400, "BadRequestError", "messages"],
    ["null for a message", CHAT, { messages: [null] }, 400, "BadRequestError", "messages"],
    ["no prompt", TEXT, {}, 400, "BadRequestError", "prompt"],
    ["an empty prompt", TEXT, { prompt: [""] }, 400, "BadRequestError", "prompt"],
    ["a mixed prompt", TEXT, { prompt: [1, "a"] }, 400, "BadRequestError", "prompt"],
    ["129 prompts", TEXT, { prompt: Array(129).fill("a") }, 400, "BadRequestError", "prompt"],
    ["no room for an answer", TEXT, { prompt: "a", max_tokens: 0 }, 400, "BadRequestError", "max_tokens"],
    ["ignore_eos without a maximum", CHAT, hello({ ignore_eos: true }), 400, "BadRequestError", "ignore_eos"],
    ["stream as a word", CHAT, hello({ stream: "yes" }), 400, "BadRequestError", "stream"],
    ["broken JSON", CHAT, '{"messages": [', 400, "BadRequestError", null],
    ["a list", CHAT, "[]", 400, "BadRequestError", null],
    ["nothing", CHAT, "", 400, "BadRequestError", null],
  ])("%s", async (_name, path, body, status, type, param) => {
    const sim = await start({ "max-model-len": 50 });
    const answer = await post(sim, path, body);
    expect([answer.status, JSON.parse(answer.text)]).toEqual([status, error(status, type, param)]);
    expect([sim.engine.running, sim.engine.waiting]).toEqual([0, 0]);
  });

  it("a full queue: 429, and none of several prompts stays behind", async () => {
    const clock = new VirtualClock();
    const sim = await start({ "max-num-seqs": 1, "max-waiting-queue-length": 1, "prefill-overhead": 10 }, clock);
    const first = await open(sim, { prompt: "a", stream: true }, false);
    await poll("first runs", () => sim.engine.running === 1);
    const refused = await post(sim, TEXT, { prompt: ["b", "c"] });
    expect([refused.status, JSON.parse(refused.text)]).toEqual([429, error(429, "RateLimitError")]);
    expect([sim.engine.running, sim.engine.waiting]).toEqual([1, 0]);
    first.leave();
  });

  it("a body that is too long: 413, declared or found out while reading", async () => {
    const sim = await start({ "max-request-body-size-mb": 1 });
    const long = JSON.stringify(hello({ user: "x".repeat(1_100_000) }));
    expect((await post(sim, CHAT, long)).status).toBe(413);
    const chunked = await post(sim, CHAT, long, { "transfer-encoding": "chunked" });
    expect([chunked.status, JSON.parse(chunked.text)]).toEqual([413, error(413, "BadRequestError")]);
    expect((await post(sim, CHAT, hello())).status).toBe(200);
  });

  it("unknown paths and methods", async () => {
    const sim = await start();
    expect((await ask(`${sim.url}/v2/x`)).status).toBe(404);
    const wrong = await ask(sim.url + CHAT);
    expect([wrong.status, wrong.headers.allow]).toEqual([405, "POST"]);
  });
});

describe("start and stop", () => {
  it("D-74: four instances in one process, each with a queue and a cache of its own", async () => {
    const options = parseSimOptions({ port: 0, host: "127.0.0.1", instances: 2, "data-parallel-size": 2, ...INSTANT });
    const sims = await startInstances(options);
    onTestFinished(async () => {
      await Promise.all(sims.map((sim) => sim.close()));
    });
    expect(new Set(sims.map((sim) => sim.port)).size).toBe(4);
    for (const sim of sims) {
      const { text, headers } = await post(sim, TEXT, { prompt: "w ".repeat(64), max_tokens: 1 });
      expect(JSON.parse(text).usage.prompt_tokens_details.cached_tokens).toBe(0);
      expect(headers["x-inference-port"]).toBe(String(sim.port));
    }
  });

  it("D-74: four instances on consecutive ports: a full queue of one holds up no other", async () => {
    const clock = new VirtualClock();
    const settings = { instances: 4, "max-num-seqs": 1, "max-waiting-queue-length": 1, "prefill-overhead": 10 };
    const port = await freePort(4);
    const sims = await startInstances(parseSimOptions({ port, host: "127.0.0.1", ...INSTANT, ...settings }), { clock });
    onTestFinished(async () => {
      await Promise.all(sims.map((sim) => sim.close()));
    });
    expect(sims.map((sim) => sim.port)).toEqual([port, port + 1, port + 2, port + 3]);
    const [full, ...others] = sims as [Simulator, ...Simulator[]];
    const held = [await open(full, { prompt: "a", stream: true }, false)];
    await poll("it runs", () => full.engine.running === 1);
    held.push(await open(full, { prompt: "a", stream: true }, false));
    await poll("it waits", () => full.engine.waiting === 1);
    expect((await post(full, TEXT, { prompt: "a" })).status).toBe(429);
    for (const sim of others) {
      expect([sim.engine.running, sim.engine.waiting]).toEqual([0, 0]);
      held.push(await open(sim, { prompt: "a", stream: true }, false));
      await poll("it runs at once", () => sim.engine.running === 1);
      const { text } = await ask(`${sim.url}/metrics`);
      expect(text).toContain('vllm:num_requests_running{model_name="sim"} 1\n');
      expect(text).toContain('vllm:num_requests_waiting{model_name="sim"} 0\n');
    }
    expect([full.engine.running, full.engine.waiting]).toEqual([1, 1]);
    for (const { leave } of held) leave();
  });

  it("says where it can't listen, and leaves no half of several instances behind", async () => {
    const taken = await start();
    const options = parseSimOptions({ port: taken.port, host: "127.0.0.1" });
    await expect(startSimulator(options)).rejects.toMatchObject({
      code: "LISTEN_FAILED",
      message: expect.stringContaining(`127.0.0.1:${taken.port}`),
    });
    await expect(startInstances({ ...options, port: taken.port - 1, instances: 2 })).rejects.toMatchObject({
      code: "LISTEN_FAILED",
    });
    await expect(ask(`http://127.0.0.1:${taken.port - 1}/health`)).rejects.toThrow();
  });

  it("close tells a stream why it ends, and a request without an answer too", async () => {
    const clock = new VirtualClock();
    const sim = await start({ "inter-token-latency": 10, "prefill-overhead": 10 }, clock);
    const body = { prompt: "a", max_tokens: 100, ignore_eos: true };
    const whole = post(sim, TEXT, body);
    await poll("first runs", () => sim.engine.running === 1);
    const stream = post(sim, TEXT, { ...body, stream: true });
    await poll("both run", () => sim.engine.running === 2);
    clock.advance(25);
    await sim.close();
    expect(await whole).toMatchObject({ status: 503, text: expect.stringContaining("InternalServerError") });
    const chunks = events((await stream).text);
    expect(chunks).toHaveLength(3);
    expect(chunks[2]).toMatchObject({ error: { code: 503 } });
    expect(sim.engine.running).toBe(0);
  });

  it("/health at once, /health/ready after startup-duration", async () => {
    const clock = new VirtualClock();
    const sim = await start({ "startup-duration": "2s" }, clock);
    expect((await ask(`${sim.url}/health`)).status).toBe(200);
    expect((await ask(`${sim.url}/health/ready`)).status).toBe(503);
    clock.advance(2000);
    expect((await ask(`${sim.url}/health/ready`)).status).toBe(200);
  });
});

it("/tokenize counts as prompts are counted", async () => {
  const sim = await start();
  const { text } = await post(sim, "/tokenize", { prompt: "Hello, world", return_token_strs: true });
  expect(JSON.parse(text)).toMatchObject({ count: 3, max_model_len: 131072, token_strs: ["Hello", ", ", "world"] });
  const chat = JSON.parse((await post(sim, "/tokenize", hello())).text);
  expect(chat.count).toBe(JSON.parse((await post(sim, CHAT, hello())).text).usage.prompt_tokens);
  expect((await post(sim, "/tokenize", {})).status).toBe(400);
});
