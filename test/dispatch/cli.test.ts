import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { NOTHING_LEFT, type RedisStore, type StoreKind } from "../support/dispatch-store.ts";
import { poll } from "../support/poll.ts";
import { fixedLimit } from "../support/slowness.ts";
import { batchLine, Desk } from "./setup.ts";

const KINDS: readonly StoreKind[] = ["SQLite", "Redis"];
/** Time without a result, after which a command gives up. */
const PATIENCE = `${fixedLimit(30_000)}ms`;

describe.each(KINDS)("batch files on %s", (kind) => {
  let desk: Desk;

  beforeEach(async () => {
    desk = await Desk.open(kind);
  });
  afterEach(() => desk.close());

  it("killed and started again, every line is sent once and answered once", async () => {
    const total = 1500;
    const ids = Array.from({ length: total }, (_, at) => `c${at + 1}`);
    const input = desk.write("in.jsonl", ids.map((id) => batchLine(id)).join(""));
    const output = desk.path("out.jsonl");
    // 16 at a time: two seconds for all of them, so that each signal comes in the middle of the work.
    await desk.gateway.manner({ delay: 25 });
    await desk.dispatch();
    const words = ["batch", input, output, "--config", desk.config, "--queue", "q", "--concurrency", "300"];
    for (const [signal, at] of [
      ["SIGKILL", 1],
      ["SIGKILL", 200],
      ["SIGKILL", 500],
      ["SIGINT", 800],
      ["SIGKILL", 1000],
    ] as const) {
      // However late the signal comes, the batch has not ended by itself.
      await desk.gateway.answers(at + 200);
      const run = desk.start(...words);
      await run.until(`${at} answers`, () => desk.lines("out.jsonl").length >= at);
      await run.stop(signal);
      if (signal !== "SIGINT") continue;
      expect(run.exit?.code).toBe(130);
      expect(run.stderr).toContain("interrupted; to continue, run the same command again");
    }
    await desk.gateway.answers();
    const last = await desk.run("batch", input, output, "--queue", "q", "--concurrency", "300");
    expect(last.stderr).toMatch(/continuing: 1,\d\d\d of 1,500 lines already have an answer/);
    expect(last.stderr).toContain("1,500 lines answered in");
    expect(last).toMatchObject({ code: 0, stdout: "" });
    const answers = desk.lines("out.jsonl").map((text) => JSON.parse(text));
    expect(answers).toHaveLength(total);
    expect(new Set(answers.map(({ custom_id }) => custom_id))).toEqual(new Set(ids));
    expect(answers.every(({ response, error }) => response.status_code === 200 && error === null)).toBe(true);
    const sent = await desk.gateway.sent();
    expect(sent.size).toBe(total);
    expect([...sent.values()].every((times) => times === 1)).toBe(true);
    expect(await desk.store.leftovers()).toEqual(NOTHING_LEFT);

    const again = await desk.run("batch", input, output, "--queue", "q");
    expect(again.code).toBe(0);
    expect(desk.lines("out.jsonl")).toHaveLength(total);
  });

  it("says when no dispatcher takes its requests, and that two cannot work on one batch", async () => {
    const input = desk.write("in.jsonl", batchLine("a"));
    const words = ["batch", input, desk.path("out.jsonl"), "--config", desk.config, "--queue", "q"];
    const run = desk.start(...words);
    await run.until("the notice", () => run.stderr.includes('no request has left queue "q"'), 30_000);
    expect(await desk.run("batch", input, desk.path("out.jsonl"), "--queue", "q")).toMatchObject({
      ...{ code: 1, stderr: expect.stringContaining("another process works on this batch") },
    });
    await desk.dispatch();
    expect((await run.ended(30_000)).code).toBe(0);
    expect(desk.lines("out.jsonl")).toHaveLength(1);
  });
});

describe("a batch whose server dies", () => {
  it("goes on when it is back, says so, and every line is answered once", async () => {
    const desk = await Desk.open("Redis");
    const { server } = desk.store as RedisStore;
    const total = 1500;
    const ids = Array.from({ length: total }, (_, at) => `c${at + 1}`);
    const input = desk.write("in.jsonl", ids.map((id) => batchLine(id)).join(""));
    await desk.gateway.manner({ delay: 100 });
    await desk.dispatch();
    const run = desk.start("batch", input, desk.path("out.jsonl"), "--config", desk.config, "--queue", "q");
    for (const at of [50, 250]) {
      // The batch is far from its end when the server dies, however late that is.
      await desk.gateway.answers(at + 400);
      await run.until(`${at} answers`, () => desk.lines("out.jsonl").length >= at, 30_000);
      await server.kill();
      await run.until(
        "the notice",
        () => run.stderr.split("the batch waits until the store answers again").length > (at === 50 ? 1 : 2),
      );
      await server.restart();
    }
    await desk.gateway.answers();
    expect((await run.ended(90_000)).code).toBe(0);
    const answered = desk.lines("out.jsonl").map((text) => JSON.parse(text).custom_id);
    expect(answered.sort()).toEqual([...ids].sort());
    await desk.close();
  });
});

describe.each(KINDS)("enqueue, queue and results on %s", (kind) => {
  let desk: Desk;

  beforeAll(async () => {
    desk = await Desk.open(kind);
  });
  afterAll(() => desk?.close());

  it("requests go in, are looked at and cancelled, and their results come out", async () => {
    const file = desk.write("one.json", '{\n  "model": "m",\n  "n": 12345678901234567890\n}\n');
    const one = await desk.run("enqueue", "--queue", "q", "--id", "one", "--endpoint", "/v1/x", file);
    expect(one).toEqual({ code: 0, stdout: "one\n", stderr: "" });
    const piped = await desk.pipe('{"prompt":"two"}', "enqueue", "--queue", "q", "--deadline", "2h", "-");
    expect(piped.stdout).toMatch(/^[0-9a-f-]{36}\n$/);
    const lines = await desk.pipe(
      '{"id":"three","payload":{"a":1},"labels":{"tier":"gold"}}\n\n{"prompt":"four"}\n{"id":"five","payload":{}}\n',
      ...(["enqueue", "--queue", "q", "--lines"] as const),
    );
    const [three, four, five] = lines.stdout.trim().split("\n");
    expect([three, five]).toEqual(["three", "five"]);

    const list = await desk.run("queue ls");
    expect(list.stdout).toMatch(/^QUEUE +WAITING .*\nq +5 +0 +0 +0 +in (1h 0m|\d+m \d+s) +(\d+m )?\d+s\nfixed +0 /);
    const json = JSON.parse((await desk.run("queue ls", "q", "--json")).stdout);
    expect(json.queues).toMatchObject([{ queue: "q", waiting: 5, claimed: 0, retries: 0, dead: 0 }]);
    const peeked = (await desk.run("queue peek", "q", "-n", "2", "--json")).stdout.trim().split("\n");
    expect(peeked.map((text) => JSON.parse(text).id)).toEqual(["one", "three"]);
    expect((await desk.run("queue peek", "q")).stdout.split("\n")).toHaveLength(7);

    const cancelled = await desk.run("queue cancel", "five", "never");
    expect(cancelled).toMatchObject({ code: 0, stdout: "", stderr: expect.stringMatching(/2 ids are marked/) });
    await desk.dispatch();
    const results = await desk.run("results", "--count", "5", "--timeout", PATIENCE);
    expect(results).toMatchObject({ code: 0, stderr: "" });
    const byId = new Map(
      results.stdout
        .trim()
        .split("\n")
        .map((text) => [JSON.parse(text).id, JSON.parse(text)]),
    );
    expect([...byId.keys()].sort()).toEqual(["one", "three", "five", four, piped.stdout.trim()].sort());
    expect(byId.get("five")).toMatchObject({ error_code: "CANCELLED" });
    expect(byId.get("one")).toMatchObject({ status_code: 200, payload: expect.any(String) });

    await desk.run("enqueue", "--queue", "q", "--id", "six", '{"a":1}');
    const payload = await desk.run("results", "--payload", "--count", "1", "--timeout", PATIENCE);
    expect(payload.stdout).toContain("six");
    expect(await desk.run("results", "--count", "1", "--timeout", "0s")).toMatchObject({
      ...{ code: 1, stdout: "", stderr: "sluice: 0 of 1 results arrived\n" },
    });
  });

  it("follows results until it is told to stop", async () => {
    const following = desk.start("results", "--config", desk.config, "--follow");
    await desk.run("enqueue", "--queue", "q", "--id", "seven", "{}");
    await poll("the result", () => following.stdout.includes('"seven"'));
    await following.stop("SIGINT");
    expect(following.exit?.code).toBe(130);
    expect(following.stderr).toBe("");
  });

  it("results go where the queue, or the request, sends them", async () => {
    await desk.run("enqueue", "--queue", "fixed", "--id", "eight", "{}");
    await desk.run("enqueue", "--queue", "q", "--id", "nine", "--result-queue", "mine", "{}");
    for (const [queue, id] of [
      ["elsewhere", "eight"],
      ["mine", "nine"],
    ] as const)
      expect((await desk.run("results", "--queue", queue, "--count", "1", "--timeout", PATIENCE)).stdout).toContain(
        `"id":"${id}"`,
      );
    const wrong = await desk.run("enqueue", "--queue", "fixed", "--result-queue", "mine", "{}");
    expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("sends all its results to elsewhere") });
  });
});

describe("mistakes", () => {
  let desk: Desk;

  beforeAll(async () => {
    desk = await Desk.open("SQLite");
  });
  afterAll(() => desk?.close());

  it("a mistyped command, flag, queue or key is an error that names the nearest one", async () => {
    const mistakes = [
      [
        ["enqueue", "--queue", "qq", "{}"],
        2,
        /there is no queue "qq" in .*dispatch\.yaml; the queues are q, fixed; did you mean/,
      ],
      [["enqueue", "{}"], 2, /name the queue with --queue: .* has q, fixed/],
      [["enqueue", "--queue", "q", "nothere.json"], 2, /nothere\.json does not exist; give a file/],
      [["enqueue", "--queue", "q", '{"id":"a","paylod":{}}'], 2, /no member "paylod"; did you mean `payload`\?/],
      [["enqueue", "--queue", "q", "--deadline-at", "1", "{}"], 2, /--deadline-at 1 has passed/],
      [
        ["enqueue", "--quue", "q", "{}"],
        2,
        /unknown flag --quue of sluice enqueue; did you mean --queue\?\n {2}FLAG_UNKNOWN: /,
      ],
      [["results", "--count", "many"], 2, /--count is "many"; give a whole number/],
      [["queue peak", "q"], 2, /unknown command peak; did you mean peek\?\n {2}COMMAND_UNKNOWN: /],
      [["queue peek", "nowhere"], 2, /there is no queue "nowhere"/],
    ] as const;
    const endings = await Promise.all(mistakes.map(([[command, ...rest]]) => desk.run(command, ...rest)));
    for (const [at, [words, code, said]] of mistakes.entries()) {
      expect(endings[at], words.join(" ")).toMatchObject({ code, stdout: "", stderr: expect.stringMatching(said) });
    }
  });

  it("refuses bad lines before anything is sent, or answers them with errors", async () => {
    const input = desk.write("in.jsonl", `${batchLine("a")}{"custom_id":"b"}\n${batchLine("a")}`);
    const refused = await desk.run("batch", input, desk.path("out.jsonl"), "--queue", "q");
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/line 2: method is missing\n {2}line 3: custom_id "a" is also on line 1/);
    expect(desk.lines("out.jsonl")).toEqual([]);
    const fixed = await desk.run("batch", input, desk.path("out.jsonl"), "--queue", "fixed", "--skip-invalid");
    expect(fixed).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("queue fixed sends all its results to elsewhere"),
    });
    await desk.dispatch();
    const skipped = await desk.run("batch", input, desk.path("out.jsonl"), "--queue", "q", "--skip-invalid");
    expect(skipped.code).toBe(1);
    expect(skipped.stderr).toContain("3 lines answered in");
    expect(skipped.stderr).toContain("2 ended in errors");
    expect(desk.lines("out.jsonl")).toHaveLength(3);
  });

  it("a server that is away, a file that is not there and a choice of none are told", async () => {
    const mistakes = [
      [["enqueue", "{}"], 2, /the place of the queues is missing: give --config FILE, --redis URL or --sqlite FILE/],
      [
        ["enqueue", "--redis", "redis://127.0.0.1:1", "{}"],
        1,
        /Redis at 127\.0\.0\.1:1 cannot be used: connect ECONNREFUSED/,
      ],
      [["queue", "ls", "--sqlite", desk.path("typo.db")], 1, /there is no queue file .*typo\.db/],
      [["results", "--sqlite", desk.config], 1, /is not an SQLite database, and stays unchanged/],
      [["queue", "ls", "--sqlite", "a", "--redis", "b"], 2, /give only one of --config, --redis and --sqlite/],
    ] as const;
    const runs = mistakes.map(([words]) => desk.start(...words));
    for (const [at, [words, code, said]] of mistakes.entries()) {
      await runs[at]!.ended(30_000);
      expect([runs[at]!.exit?.code, runs[at]!.stdout], words.join(" ")).toEqual([code, ""]);
      expect(runs[at]!.stderr, words.join(" ")).toMatch(said);
    }
  });
});

describe("what is no message", () => {
  it("dead letters are shown with their reasons, and go back; what is no result is passed over", async () => {
    const desk = await Desk.open("Redis");
    const { redis, server } = desk.store as RedisStore;
    await redis.send(["ZADD", "q", "5", "garbage"]);
    await redis.send(["LPUSH", "result-list", "garbage", '{"id":"a","payload":"x"}']);
    const dispatcher = await desk.dispatch();
    await poll("the dead letter", async () => (await redis.send(["LLEN", "q:dead"])) === 1);
    await dispatcher.stop("SIGTERM");
    const run = async (...words: readonly string[]) => {
      const started = desk.start(...words, "--redis", server.url);
      await started.ended(30_000);
      return started;
    };
    const dead = await run("queue", "peek", "q", "--dead");
    expect(dead.stdout).toMatch(/\(unreadable\) +- +- +0 +7 +(\d+m )?\d+s ago +the entry is not JSON/);
    expect((await run("queue", "requeue", "q")).stderr).toBe("sluice: 1 of 1 dead letters are back in queue q\n");
    expect((await run("queue", "peek", "q")).stdout).toMatch(/\(unreadable\)/);
    const results = await run("results", "--timeout", "0s");
    expect(results.stdout).toBe('{"id":"a","payload":"x"}\n');
    expect(results.stderr).toMatch(/removed a queue entry that is not a result: result is not JSON/);
    await desk.close();
  });
});
