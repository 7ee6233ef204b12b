import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { ask } from "../../../test/support/client.ts";
import { CHAT, hello, open, post, records, start, TEXT } from "../../../test/support/instant-simulator.ts";
import { poll } from "../../../test/support/poll.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";

describe("D-68: LoRA", () => {
  it("load and unload show in /v1/models", async () => {
    const sim = await start({ "lora-modules": ['{"name":"a","path":"/a"}'], "served-model-name": ["base", "alias"] });
    const models = async () =>
      JSON.parse((await ask(`${sim.url}/v1/models`)).text).data.map(
        (m: { id: string; root: string; parent: string | null }) => [m.id, m.root, m.parent],
      );
    expect(await models()).toEqual([
      ["base", "sim", null],
      ["alias", "sim", null],
      ["a", "/a", "base"],
    ]);
    expect((await post(sim, "/v1/load_lora_adapter", { lora_name: "b", lora_path: "/b" })).status).toBe(200);
    expect((await models()).at(-1)).toEqual(["b", "/b", "base"]);
    expect(JSON.parse((await post(sim, CHAT, hello({ model: "b" }))).text).model).toBe("b");
    expect((await post(sim, "/v1/load_lora_adapter", { lora_name: "b", lora_path: "/b" })).status).toBe(400);
    expect((await post(sim, "/v1/load_lora_adapter", { lora_name: "a,b", lora_path: "/b" })).status).toBe(400);
    expect((await post(sim, "/v1/load_lora_adapter", { lora_name: "base", lora_path: "/b" })).status).toBe(400);
    expect((await post(sim, "/v1/load_lora_adapter", { lora_name: "c" })).status).toBe(400);
    expect((await post(sim, "/v1/unload_lora_adapter", { lora_name: "b" })).status).toBe(200);
    expect((await post(sim, "/v1/unload_lora_adapter", { lora_name: "b" })).status).toBe(404);
    expect((await post(sim, CHAT, hello({ model: "b" }))).status).toBe(404);
    expect(await models()).toHaveLength(3);
  });

  it("prefixes of an adapter that was loaded anew are not found", async () => {
    const sim = await start({ "lora-modules": ["a=/a"] });
    const ask = async () =>
      JSON.parse((await post(sim, TEXT, { model: "a", prompt: "w ".repeat(64), max_tokens: 1 })).text).usage
        .prompt_tokens_details.cached_tokens;
    expect([await ask(), await ask()]).toEqual([0, 64]);
    await post(sim, "/v1/unload_lora_adapter", { lora_name: "a" });
    await post(sim, "/v1/load_lora_adapter", { lora_name: "a", lora_path: "/a" });
    expect(await ask()).toBe(0);
  });

  it("an adapter that was loaded at run time runs under its name in lora_requests_info, until its last request ends", async () => {
    const clock = new VirtualClock(5_000);
    const sim = await start({ "prefill-overhead": 10 }, clock);
    const running = async () =>
      /^vllm:lora_requests_info\{max_lora="1",running_lora_adapters="([^"]*)",waiting_lora_adapters=""\} 5$/m.exec(
        (await ask(`${sim.url}/metrics`)).text,
      )?.[1];
    expect((await post(sim, TEXT, { model: "late", prompt: "x" })).status).toBe(404);
    expect((await post(sim, "/v1/load_lora_adapter", { lora_name: "late", lora_path: "/l" })).status).toBe(200);
    expect(await running()).toBe("");
    const request = await open(sim, { model: "late", prompt: "x", stream: true }, false);
    await poll("it runs", () => sim.engine.running === 1);
    expect(await running()).toBe("late");
    expect((await post(sim, "/v1/unload_lora_adapter", { lora_name: "late" })).status).toBe(200);
    // What runs goes on; nothing new starts.
    expect(await running()).toBe("late");
    expect((await post(sim, TEXT, { model: "late", prompt: "x" })).status).toBe(404);
    request.leave();
    await poll("it ended", () => sim.engine.running === 0);
    expect(await running()).toBe("");
  });

  it("lora_requests_info names the adapters that run and the adapters that wait for a slot", async () => {
    const clock = new VirtualClock(5_000);
    const sim = await start({ "lora-modules": ["a=/a", "b=/b"], "prefill-overhead": 10 }, clock);
    const info = async () =>
      (await ask(`${sim.url}/metrics`)).text.split("\n").filter((l) => l.startsWith("vllm:lora"));
    const series = (running: string, waiting: string) =>
      `vllm:lora_requests_info{max_lora="1",running_lora_adapters="${running}",waiting_lora_adapters="${waiting}"} 5`;
    expect(await info()).toEqual([series("", "")]);
    const a = await open(sim, { model: "a", prompt: "x", stream: true }, false);
    await poll("a runs", () => sim.engine.running === 1);
    const b = await open(sim, { model: "b", prompt: "x", stream: true }, false);
    await poll("b waits", () => sim.engine.waiting === 1);
    expect(await info()).toEqual([series("a", "b")]);
    a.leave();
    await poll("b runs", () => sim.engine.waiting === 0);
    expect(await info()).toEqual([series("b", "")]);
    b.leave();
  });
});

describe("D-70: abort", () => {
  it("a client that leaves frees its slot at once, running or waiting, and is listed", async () => {
    const clock = new VirtualClock(1_000);
    const sim = await start({ "max-num-seqs": 1, "inter-token-latency": 10, "prefill-overhead": 10 }, clock);
    const body = { prompt: "a ".repeat(40), max_tokens: 100, ignore_eos: true, stream: true };
    const opening = open(sim, body);
    await poll("first runs", () => sim.engine.running === 1);
    clock.advance(35);
    const running = await opening;
    const waiting = await open(sim, body, false);
    await poll("second waits", () => sim.engine.waiting === 1);
    // Time stands still from here on: nothing but the closed connections can end these.
    waiting.leave();
    await poll("second is gone", () => sim.engine.waiting === 0);
    running.leave();
    await poll("first is gone", () => sim.engine.running === 0);
    expect(sim.engine.kv.pinned).toBe(0);
    const [first, second] = await poll("both listed", async () => {
      const all = await records(sim);
      return all.every((record) => record.aborted) ? all : undefined;
    });
    expect(first).toMatchObject({
      aborted: true,
      abortedAt: 1_035,
      receivedAt: 1_000,
      firstTokenAt: 1_010,
      status: 200,
    });
    expect(second).toMatchObject({ aborted: true, firstTokenAt: null, status: null });
    expect((await ask(`${sim.url}/metrics`)).text).toContain('finish_reason="abort"} 2');
  });

  it.each([
    ["closes", "destroy"],
    ["resets", "resetAndDestroy"],
  ] as const)("one that %s its connection while its body is read never gets a slot", async (_how, leave) => {
    const sim = await start();
    const socket = connect(sim.port, "127.0.0.1");
    socket.write(`POST ${TEXT} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{"prompt":`);
    await poll("listed", async () => (await records(sim)).length === 1);
    socket[leave]();
    const record = await poll("aborted", async () => (await records(sim)).find((r) => r.aborted));
    expect(record).toMatchObject({ declaredContentLength: 1000, lengthMismatch: true, bodySha256: null });
    expect(sim.engine.counters.aborted).toBe(0);
  });
});

describe("D-71: bodies", () => {
  const sent = '{"prompt":"{\\"a\\"}","max_tokens":1}';

  it("digest, length and headers of what arrived", async () => {
    const sim = await start();
    await post(sim, TEXT, '{"prompt":"abc"}', { "x-request-id": "r-7", "x-more": "yes" });
    const [record] = await records(sim);
    expect(record).toMatchObject({
      id: "r-7",
      method: "POST",
      path: TEXT,
      bodySha256: "c55027ed8785f702a3c0d7235edb319205da519b3eccf8012b98500d153f5159",
      bodyLength: 16,
      declaredContentLength: 16,
      trailingBytes: false,
      lengthMismatch: false,
      aborted: false,
      status: 200,
    });
    expect(record!.headers["x-more"]).toBe("yes");
    const other = JSON.parse((await ask(`${sim.url}/admin/requests?id=other`)).text);
    expect(other.requests).toEqual([]);
  });

  it.each([
    ["the same document twice", sent + sent, true],
    ["{}{}", "{}{}", true],
    ["white space between them", `${sent}\n ${sent}`, true],
    ["another document", `${sent}{"x":1}`, false],
    ["a stray letter", `${sent} x`, false],
  ])("%s: 400, flagged", async (_name, body, repeated) => {
    const sim = await start();
    const { status, text } = await post(sim, TEXT, body);
    expect([status, JSON.parse(text).error.message]).toEqual([
      400,
      expect.stringMatching(/^InvalidRequest: trailing data/),
    ]);
    expect(await records(sim)).toMatchObject([{ trailingBytes: true, repeatedDocument: repeated }]);
  });

  it("white space behind the document is fine", async () => {
    const sim = await start();
    expect((await post(sim, TEXT, `${sent}\r\n `)).status).toBe(200);
    expect(await records(sim)).toMatchObject([{ trailingBytes: false }]);
  });

  it("bytes beyond the declared length: flagged, the answer is still whole, the connection ends", async () => {
    const sim = await start();
    const socket = connect(sim.port, "127.0.0.1");
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk;
    });
    const ended = new Promise((resolve) => socket.on("close", resolve));
    socket.write(`POST ${TEXT} HTTP/1.1\r\nhost: x\r\ncontent-length: ${sent.length}\r\n\r\n${sent}${sent}`);
    await ended;
    expect(answer).toContain('"object":"text_completion"');
    expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1);
    expect(await records(sim)).toMatchObject([{ lengthMismatch: true, status: 200 }]);
  });

  it("bytes that are no request at all get a 400", async () => {
    const sim = await start();
    const socket = connect(sim.port, "127.0.0.1");
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk;
    });
    const ended = new Promise((resolve) => socket.on("close", resolve));
    socket.write("\u0016\u0003\u0001\r\n\r\n");
    await ended;
    expect(answer).toMatch(/^HTTP\/1\.1 400/);
    expect((await post(sim, CHAT, hello())).status).toBe(200);
  });

  it("keeps the last 1,000 requests", async () => {
    const sim = await start();
    for (let i = 0; i < 1003; i += 17) {
      await Promise.all(
        Array.from({ length: 17 }, (_, k) =>
          ask(`${sim.url}/v1/models`, { headers: { "x-request-id": String(i + k) } }),
        ),
      );
    }
    const ids = (await records(sim)).map((record) => Number(record.id));
    expect(ids).toHaveLength(1000);
    expect(Math.min(...ids)).toBeGreaterThan(0);
  });
});
