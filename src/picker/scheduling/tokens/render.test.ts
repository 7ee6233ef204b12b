import { afterEach, describe, expect, it } from "vitest";
import { poll } from "../../../../test/support/poll.ts";
import { RenderServer } from "../../../../test/support/render-server.ts";
import { requestOf } from "../../../../test/support/scheduling/fakes.cases.ts";
import { VirtualClock } from "../../../base/clock/virtual.ts";
import { HeaderList } from "../../../base/inference/headers.ts";
import type { InferenceRequest } from "../../../base/inference/request.ts";
import { MAX_BYTES_UNDER_WAY, MAX_RENDER_BYTES, RenderClient, type RenderOptions, renderedTokens } from "./render.ts";

const servers: RenderServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function setUp(options: Partial<RenderOptions> = {}) {
  const server = await RenderServer.start();
  servers.push(server);
  const clock = new VirtualClock();
  const client = new RenderClient(
    { url: server.url, timeout: 5000, mmTimeout: 30_000, modelName: undefined, ...options },
    clock,
  );
  return { server, clock, client };
}

function request(path: string, body: object, at: Partial<InferenceRequest> = {}): InferenceRequest {
  const text = JSON.stringify(body);
  const headers = HeaderList.of([
    [":path", path],
    ["authorization", "Bearer secret"],
  ]);
  return requestOf(text, { headers, ...at });
}

const CHAT = request("/v1/chat/completions", { model: "m", messages: [{ role: "user", content: "a b  a" }] });
const NEVER = new AbortController().signal;

async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return "none";
  } catch (error) {
    return (error as { code: string }).code;
  }
}

describe("the client of a render server", () => {
  it("sends the body as it is, nothing else of the request, and reads the tokens", async () => {
    const { server, client, clock } = await setUp();
    const rendered = await client.tokens(CHAT, NEVER);
    expect([...new Uint32Array(rendered!.tokens.slice().buffer)]).toEqual(server.tokens("a b a"));
    expect(server.questions).toHaveLength(1);
    const { path, headers, text } = server.questions[0]!;
    expect(path).toBe("/v1/chat/completions/render");
    expect(text).toBe(new TextDecoder().decode(CHAT.body));
    expect(headers["content-type"]).toBe("application/json");
    expect(headers.authorization).toBeUndefined();
    expect(clock.pending).toBe(0);
    expect(client.bytesUnderWay).toBe(0);
  });

  it.each([
    ["/v1/completions", "/v1/completions/render"],
    ["/proxied/v1/completions?x=1", "/v1/completions/render"],
    ["/v1/completions/render", "/v1/completions/render"],
    ["/openai/v1/chat/completions", "/v1/chat/completions/render"],
  ])("asks for %s at %s", async (path, asked) => {
    const { server, client } = await setUp();
    const both = { prompt: ["a b", "c"], messages: [{ content: "a" }] };
    const rendered = await client.tokens(request(path, both), NEVER);
    expect(server.questions.map((question) => question.path)).toEqual([asked]);
    expect(rendered!.prompts).toHaveLength(asked.includes("chat") ? 1 : 2);
  });

  it.each(["/v1/embeddings", "/v1/messages", "/inference/v1/generate", "/v1/chat", "/"])(
    "asks nothing for %s",
    async (path) => {
      const { server, client } = await setUp();
      expect(await client.tokens(request(path, { prompt: "a" }), NEVER)).toBeUndefined();
      expect(server.questions).toEqual([]);
    },
  );

  it("names the configured model in place of the client's, or where the client names none", async () => {
    const { server, client } = await setUp({ modelName: 'base "x" é' });
    const body = { model: "adapter", prompt: "a" };
    const range = { start: '{"model":'.length, end: '{"model":"adapter"'.length };
    await client.tokens(request("/v1/completions", body, { modelRange: range, modelInsertAt: 1 }), NEVER);
    await client.tokens(request("/v1/completions", { prompt: "a" }, { modelInsertAt: 1 }), NEVER);
    for (const { text } of server.questions) expect(JSON.parse(text)).toEqual({ model: 'base "x" é', prompt: "a" });
    expect(server.questions).toHaveLength(2);
  });

  it("reads the answers of earlier servers", async () => {
    const { server, client } = await setUp();
    server.reply = "earlier";
    expect((await client.tokens(CHAT, NEVER))!.count).toBe(3);
    expect((await client.tokens(request("/v1/completions", { prompt: ["a", "b c"] }), NEVER))!.count).toBe(3);
  });

  it("waits 5 seconds for text and 30 for images, and then lets go of the server", async () => {
    const { server, clock, client } = await setUp();
    server.reply = "hang";
    const text = codeOf(client.tokens(CHAT, NEVER));
    const content = [{ type: "image_url", image_url: { url: "https://a/1.png" } }];
    const withImage = request("/v1/chat/completions", { messages: [{ role: "user", content }] });
    let imageCode = "";
    const image = codeOf(client.tokens(withImage, NEVER)).then((code) => {
      imageCode = code;
    });
    await poll("both to be asked", () => server.questions.length === 2);
    expect(client.bytesUnderWay).toBe(CHAT.body.length + withImage.body.length);
    clock.advance(5000);
    expect(await text).toBe("RENDER_TIMEOUT");
    await poll("the first to be let go", () => server.abandoned === 1);
    expect(imageCode).toBe("");
    clock.advance(25_000);
    await image;
    expect(imageCode).toBe("RENDER_TIMEOUT");
    expect(client.bytesUnderWay).toBe(0);
  });

  it("stops when its signal is aborted", async () => {
    const { server, clock, client } = await setUp();
    server.reply = "hang";
    const told = new AbortController();
    const rendering = codeOf(client.tokens(CHAT, told.signal));
    await poll("a question", () => server.questions.length === 1);
    told.abort(Object.assign(new Error("over"), { code: "OVER" }));
    expect(await rendering).toBe("OVER");
    await poll("the server to notice", () => server.abandoned === 1);
    expect(clock.pending).toBe(0);
    expect(client.bytesUnderWay).toBe(0);
  });

  it("follows no redirect, and quotes nobody: answers may hold parts of prompts", async () => {
    const { server, client } = await setUp();
    const other = await setUp();
    const failures: [string, RenderServer["reply"]][] = [
      ["RENDER_FAILED", { status: 307, body: "", headers: { location: `${other.server.url}/v1/completions/render` } }],
      ["RENDER_STATUS", { status: 400, body: "cannot render: secret prompt" }],
      ["RENDER_STATUS", { status: 500, body: "secret prompt" }],
      ["RENDER_ANSWER", { body: "secret prompt" }],
      ["RENDER_ANSWER", { body: '{"error":"secret prompt"}' }],
      ["RENDER_ANSWER", { body: "" }],
    ];
    for (const [code, reply] of failures) {
      server.reply = reply;
      const error = await client.tokens(CHAT, NEVER).catch((thrown: unknown) => thrown);
      expect(error, JSON.stringify(reply)).toMatchObject({ code });
      expect(String(error)).not.toContain("secret");
    }
    expect(other.server.questions).toEqual([]);
    expect(client.bytesUnderWay).toBe(0);
  });

  it("says who cannot be reached and why", async () => {
    const { server, client } = await setUp();
    const { url } = server;
    await server.close();
    await expect(client.tokens(CHAT, NEVER)).rejects.toMatchObject({
      code: "RENDER_FAILED",
      message: expect.stringMatching(`^no answer from ${url}/v1/chat/completions/render: .*ECONNREFUSED`),
    });
  });

  it("takes 16 MiB of one answer", async () => {
    const { server, client } = await setUp();
    const padded = (length: number): string => JSON.stringify({ token_ids: [1], more: "" }).padEnd(length);
    server.reply = { body: padded(MAX_RENDER_BYTES) };
    expect((await client.tokens(CHAT, NEVER))!.count).toBe(1);
    server.reply = { body: padded(MAX_RENDER_BYTES + 1) };
    expect(await codeOf(client.tokens(CHAT, NEVER))).toBe("RENDER_ANSWER");
    expect(client.bytesUnderWay).toBe(0);
  });

  it("has 128 MiB under way at most; what is more is refused at once", async () => {
    const { server, client } = await setUp();
    server.reply = "hang";
    const told = new AbortController();
    const body = Buffer.alloc(MAX_BYTES_UNDER_WAY / 4, 0x20);
    const large = { ...CHAT, body };
    const waiting = [1, 2, 3, 4].map(() => codeOf(client.tokens(large, told.signal)));
    expect(client.bytesUnderWay).toBe(MAX_BYTES_UNDER_WAY);
    expect(await codeOf(client.tokens(CHAT, told.signal))).toBe("RENDER_LIMIT");
    expect(client.bytesUnderWay).toBe(MAX_BYTES_UNDER_WAY);
    told.abort(Object.assign(new Error("over"), { code: "OVER" }));
    expect(await Promise.all(waiting)).toEqual(["OVER", "OVER", "OVER", "OVER"]);
    expect(client.bytesUnderWay).toBe(0);
  });
});

describe("the answer of a render server", () => {
  /** Tokens per prompt. */
  function read(answer: unknown): number[][] | undefined {
    const rendered = renderedTokens(answer);
    if (rendered === undefined) return undefined;
    const { tokens, prompts, count } = rendered;
    const view = new DataView(tokens.buffer, tokens.byteOffset, tokens.byteLength);
    const lists = prompts.map(({ start, end }) =>
      Array.from({ length: (end - start) / 4 }, (_, i) => view.getUint32(start + 4 * i, true)),
    );
    expect(count).toBe(lists.flat().length);
    return lists;
  }

  it("is one object for a chat, a list of them for completions", () => {
    expect(read({ request_id: "r", token_ids: [1, 4294967295, 0], features: null })).toEqual([[1, 4294967295, 0]]);
    expect(read([{ token_ids: [1, 2] }, { token_ids: [] }, { token_ids: [3] }])).toEqual([[1, 2], [], [3]]);
  });

  it("of earlier servers is a conversation and its prompt, or prompts with their texts", () => {
    expect(read([[{ role: "user", content: "hi" }], [{ prompt_token_ids: [1, 2] }]])).toEqual([[1, 2]]);
    expect(
      read([
        { prompt: "a", prompt_token_ids: [1] },
        { prompt: "b", prompt_token_ids: [2] },
      ]),
    ).toEqual([[1], [2]]);
  });

  it("has other placeholders for each image", () => {
    const chat = (...hashes: string[]) => ({
      token_ids: [5, 9, 9, 9, 6, 9, 9, 7],
      features: {
        mm_hashes: { image: hashes },
        mm_placeholders: {
          image: [
            { offset: 1, length: 3 },
            { offset: 5, length: 2 },
          ],
        },
      },
    });
    const [tokens] = read(chat("aa", "bb"))!;
    const [a, b] = [tokens![1], tokens![5]];
    expect(tokens).toEqual([5, a, a, a, 6, b, b, 7]);
    expect(new Set([5, 9, 6, 7, a, b]).size).toBe(6);
    expect(read(chat("aa", "cc"))![0]!.slice(0, 5)).toEqual(tokens!.slice(0, 5));
    expect(read(chat("aa", "cc"))![0]![5]).not.toBe(b);
  });

  it("keeps the engine's own placeholders, with prompt, place and hash, in the order of places", () => {
    const features = {
      mm_hashes: { video: ["film"], image: ["late", "over", "early"] },
      mm_placeholders: {
        video: [{ offset: 3, length: 2 }],
        image: [
          { offset: 6, length: 9 },
          { offset: 4, length: 1 },
          { offset: 0, length: 1 },
        ],
      },
    };
    const answer = [{ token_ids: [1] }, { token_ids: [9, 1, 2, 8, 8, 3, 9, 9], features }];
    expect(renderedTokens(answer)!.media).toEqual([
      { prompt: 1, offset: 0, tokens: Uint32Array.of(9), hash: "early" },
      { prompt: 1, offset: 3, tokens: Uint32Array.of(8, 8), hash: "film" },
      { prompt: 1, offset: 6, tokens: Uint32Array.of(9, 9), hash: "late" },
    ]);
    expect(renderedTokens({ token_ids: [1, 2] })).not.toHaveProperty("media");
  });

  it.each([
    ["text", { mm_hashes: 5, mm_placeholders: "x" }],
    ["no hashes", { mm_placeholders: { image: [{ offset: 0, length: 1 }] } }],
    ["no list", { mm_hashes: { image: ["a"] }, mm_placeholders: { image: {} } }],
    ["places that are none", { mm_hashes: { image: ["a", "b"] }, mm_placeholders: { image: [null, { offset: "0" }] } }],
    ["negative places", { mm_hashes: { image: ["a"] }, mm_placeholders: { image: [{ offset: -1, length: 1 }] } }],
    ["a place behind the end", { mm_hashes: { image: ["a"] }, mm_placeholders: { image: [{ offset: 9, length: 9 }] } }],
  ])("may have features of another shape, such as %s: the tokens count", (_what, features) => {
    expect(read({ token_ids: [1, 2], features })).toEqual([[1, 2]]);
  });

  it("without tokens says nothing", () => {
    expect(read([])).toBeUndefined();
    expect(read({ token_ids: [] })).toBeUndefined();
  });

  it.each([
    ["null", null],
    ["a text", "tokens"],
    ["an object without tokens", { error: { message: "no" } }],
    ["tokens that are texts", { token_ids: ["a"] }],
    ["tokens that are negative", { token_ids: [-1] }],
    ["tokens that are too large", { token_ids: [2 ** 32] }],
    ["tokens that are fractions", { token_ids: [1.5] }],
    ["a list of numbers", [1, 2, 3]],
    ["tokens that are no list", { token_ids: 5 }],
  ])("is refused when it is %s", (_what, answer) => {
    expect(() => renderedTokens(answer)).toThrow(expect.objectContaining({ code: "RENDER_ANSWER" }));
  });
});
