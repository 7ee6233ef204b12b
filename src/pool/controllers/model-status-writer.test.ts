import { describe, expect, it, vi } from "vitest";
import type { PolicyRule, SeenRequest } from "../../../test/support/apiserver/index.ts";
import { clusterOfFile, type Follower, mayRead } from "../../../test/support/controllers/cluster.cases.ts";
import type { Condition } from "../resources/model-status.ts";
import { GROUP } from "../resources/objects.ts";

const { cluster, place } = await clusterOfFile("models");

/** A namespace with a pool, and what is in and happens to the status of its InferenceModels. */
async function modelPlace() {
  const { namespace, objects, follower } = place();
  await objects.pool({ app: "a", group: GROUP.experimental });
  const follow = async (token?: string): Promise<Follower> => {
    const made = await follower(token === undefined ? {} : { token }).start();
    made.writer.start();
    return made;
  };
  const conditions = async (name: string): Promise<readonly Condition[]> => {
    const object = await cluster.server.get(objects.path("inferencemodels", name));
    return (object?.["status"] as { conditions?: Condition[] } | undefined)?.conditions ?? [];
  };
  /** `Accepted=True/Accepted Ready=...` */
  const verdict = async (name: string): Promise<string> =>
    (await conditions(name)).map(({ type, status, reason }) => `${type}=${status}/${reason}`).join(" ");
  const isWrite = ({ method, path }: SeenRequest): boolean =>
    method !== "GET" && path.includes(`/${namespace}/inferencemodels/`);
  const writes = () => cluster.server.log.filter(isWrite);
  return { namespace, objects, follow, conditions, verdict, isWrite, writes };
}

const WON = "Accepted=True/Accepted Ready=True/Accepted";
const LOST = "Accepted=False/ModelNameInUse Ready=False/ModelNameInUse";

describe("the status of InferenceModels (R-19)", () => {
  it("says who owns a model name, to both, with the generation that was looked at", async () => {
    const { namespace, objects, follow, conditions, verdict } = await modelPlace();
    const older = await objects.model("older", "chat");
    cluster.pass(60);
    await objects.model("newer", "chat");
    await objects.model("other-pool", "chat", { pool: "another" });
    const following = await follow();
    await following.until("both", async () => (await verdict("older")) === WON && (await verdict("newer")) === LOST);
    const [accepted, ready] = await conditions("newer");
    expect(accepted).toMatchObject({
      observedGeneration: 1,
      message: expect.stringContaining(`${namespace}/older, created ${older.metadata.creationTimestamp}`),
    });
    expect(ready?.message).toBe(accepted?.message);
    // It is none of ours.
    expect(await conditions("other-pool")).toEqual([]);
  });

  it("changes for both when the owner goes", async () => {
    const { objects, follow, verdict, conditions } = await modelPlace();
    await objects.model("older", "chat");
    cluster.pass(60);
    await objects.model("newer", "chat");
    const following = await follow();
    await following.until("both", async () => (await verdict("older")) === WON && (await verdict("newer")) === LOST);
    const [before] = await conditions("newer");
    // What counts is the clock of who writes.
    following.clock.advance(60_000);
    await objects.model("older", "chat", { pool: "another" });
    await following.until("the promotion", async () => (await verdict("newer")) === WON);
    const [after] = await conditions("newer");
    expect(Date.parse(after!.lastTransitionTime)).toBeGreaterThan(Date.parse(before!.lastTransitionTime));
    // And back: the older one wins again.
    await objects.model("older", "chat");
    await following.until("the demotion", async () => (await verdict("newer")) === LOST);
    await following.until("its own", async () => (await conditions("older"))[0]?.observedGeneration === 3);
    expect(await verdict("older")).toBe(WON);
    await objects.delete("inferencemodels", "older");
    await following.until("the second promotion", async () => (await verdict("newer")) === WON);
  });

  it("keeps what others write there, and finds no fault with it", async () => {
    const { objects, follow, conditions, verdict, writes } = await modelPlace();
    const model = await objects.model("chat", "chat");
    const foreign = {
      ...{ type: "Example", status: "True", reason: "Because", message: "of us" },
      lastTransitionTime: "2025-01-01T00:00:00Z",
    };
    await cluster.server.put({ ...model, status: { conditions: [foreign] } });
    const following = await follow();
    await following.until("ours", async () => (await verdict("chat")).endsWith(WON));
    expect((await conditions("chat"))[0]).toEqual(foreign);
    const written = writes().length;
    const kept = await cluster.server.get(objects.path("inferencemodels", "chat"));
    const more = [...(await conditions("chat")), { ...foreign, type: "Another" }];
    await cluster.server.put({ ...kept, status: { conditions: more } });
    await objects.model("second", "second");
    await following.until("the second", async () => (await verdict("second")) === WON);
    expect((await conditions("chat")).map(({ type }) => type)).toEqual(["Example", "Accepted", "Ready", "Another"]);
    expect(writes()).toHaveLength(written + 1);
  });

  it("is written once: not by a second look, nor by another process, which leaves the times alone", async () => {
    const { objects, follow, conditions, verdict, writes } = await modelPlace();
    await objects.model("chat", "chat");
    const first = await follow();
    await first.until("the status", async () => (await verdict("chat")) === WON);
    const before = await conditions("chat");
    expect(writes()).toHaveLength(1);
    first.writer.close();
    first.writer.start();
    cluster.pass(3600);
    const second = await follow();
    await objects.model("later", "later");
    await second.until("the later one", async () => (await verdict("later")) === WON);
    first.clock.advance(20_000);
    expect(await conditions("chat")).toEqual(before);
    expect(writes().filter(({ path }) => path.endsWith("/chat/status"))).toHaveLength(1);
  });

  it("looks at no other model when one changes, and writes anew for a new generation", async () => {
    const { objects, follow, conditions, verdict, namespace } = await modelPlace();
    await objects.model("chat", "chat");
    await objects.model("other", "other");
    const following = await follow();
    await following.until("both", async () => (await verdict("chat")) === WON && (await verdict("other")) === WON);
    const looks = () =>
      cluster.server.log.filter(({ path }) => path.endsWith(`/${namespace}/inferencemodels/other`)).length;
    expect(looks()).toBe(1);
    await objects.model("chat", "chat", { targets: ["chat-v2"] });
    await following.until("the second", async () => (await conditions("chat"))[0]?.observedGeneration === 2);
    expect(await verdict("chat")).toBe(WON);
    expect(looks()).toBe(1);
  });

  it("loses nothing that somebody writes between its look and its write", async () => {
    const { objects, follow, conditions, verdict } = await modelPlace();
    const following = await follow();
    const foreign = {
      ...{ type: "Example", status: "True", reason: "Because", message: "" },
      lastTransitionTime: "2025-01-01T00:00:00Z",
    };
    const request = following.api.request.bind(following.api);
    let meddled = false;
    vi.spyOn(following.api, "request").mockImplementation(async (asked) => {
      if (asked.method === "PATCH" && !meddled) {
        meddled = true;
        const model = await cluster.server.get(objects.path("inferencemodels", "chat"));
        await cluster.server.put({ ...model, status: { conditions: [foreign] } });
      }
      return request(asked);
    });
    await objects.model("chat", "chat");
    await following.until("both", async () => (await verdict("chat")).endsWith(WON));
    expect((await conditions("chat"))[0]).toEqual(foreign);
  });

  it("is not that of a namesake which came in between", async () => {
    const { objects, follow, verdict } = await modelPlace();
    const following = await follow();
    const request = following.api.request.bind(following.api);
    const written: unknown[] = [];
    let meddled = false;
    vi.spyOn(following.api, "request").mockImplementation(async (asked) => {
      if (asked.path.endsWith("/chat") && !meddled) {
        meddled = true;
        await objects.delete("inferencemodels", "chat");
        await objects.model("chat", "another-name");
      }
      if (asked.method === "PATCH") written.push(asked.body);
      return request(asked);
    });
    await objects.model("chat", "chat");
    await following.until("the status", async () => (await verdict("chat")) === WON);
    expect(written).toHaveLength(1);
    expect(JSON.stringify(written)).toContain("another-name");
  });

  it("gives way to somebody who wrote at the same time", async () => {
    const { objects, follow, verdict, isWrite, writes } = await modelPlace();
    await objects.model("chat", "chat");
    cluster.server.failNext(2, 409, undefined, isWrite);
    const following = await follow();
    await following.until("the status", async () => (await verdict("chat")) === WON);
    expect(writes().map(({ status }) => status)).toEqual([409, 409, 200]);
    expect(following.warnings).toEqual([]);
  });

  it("is tried again when the server fails, which is told once, and holds up no other model", async () => {
    const { objects, follow, verdict, isWrite, writes } = await modelPlace();
    await objects.model("bad", "bad");
    await objects.model("good", "good");
    cluster.server.failNext(3, 500, undefined, (request) => isWrite(request) && request.path.endsWith("/bad/status"));
    const following = await follow();
    await following.until("the good one", async () => (await verdict("good")) === WON);
    await following.until("the bad one", async () => (await verdict("bad")) === WON);
    expect(writes().filter(({ path }) => path.endsWith("/bad/status"))).toHaveLength(4);
    expect(following.warnings).toEqual([
      expect.stringContaining("Sluice could not write the status of an InferenceModel and tries again"),
    ]);
  });

  it("does not wait for the next try of another", async () => {
    const { objects, follow, verdict, isWrite } = await modelPlace();
    await objects.model("bad", "bad");
    cluster.server.failNext(
      1000,
      500,
      undefined,
      (request) => isWrite(request) && request.path.endsWith("/bad/status"),
    );
    const following = await follow();
    await following.until("the failure", () => following.warnings.length > 0);
    await objects.model("good", "good");
    await following.until("the good one", () => following.store.model("good"), 0);
    following.clock.advance(1000);
    await following.until("its status", async () => (await verdict("good")) === WON, 0);
  });

  it.each([
    ["has too much to do, and asks to wait", 429, 20],
    ["is not there", 503, undefined],
  ])("is asked about one model at a time while the server %s", async (_, status, retryAfter) => {
    const { objects, follow, verdict, namespace } = await modelPlace();
    for (let at = 0; at < 8; at++) await objects.model(`model-${at}`, `model-${at}`);
    const isAsked = ({ path }: SeenRequest): boolean => path.includes(`/${namespace}/inferencemodels/`);
    cluster.server.failNext(2, status, retryAfter, isAsked);
    cluster.server.log.length = 0;
    const following = await follow();
    await following.until("a refusal", () => following.warnings.length > 0, 0);
    const asked = () => cluster.server.log.filter(isAsked).length;
    following.clock.advance((retryAfter ?? 5) * 1000 - 1);
    await following.api.request({ method: "GET", path: objects.path("inferencepools", "pool") });
    expect(asked()).toBe(1);
    await following.until("the statuses", async () => (await verdict("model-7")) === WON);
    expect(following.warnings).toHaveLength(1);
  });

  it("is looked at anew after the writer stopped while it looked", async () => {
    const { objects, follow, verdict, conditions } = await modelPlace();
    await objects.model("chat", "chat");
    const following = await follow();
    const request = following.api.request.bind(following.api);
    let answer: (() => void) | undefined;
    vi.spyOn(following.api, "request").mockImplementation(async (asked) => {
      const given = await request(asked);
      if (asked.method === "PATCH" && answer === undefined) await new Promise<void>((resolve) => (answer = resolve));
      return given;
    });
    await following.until("the write", () => answer);
    following.writer.close();
    // Another replica leads meanwhile, and writes what it thinks.
    const metadata = { name: "chat", namespace: objects.path("", "").split("/")[5]! };
    await cluster.server.request("PATCH", `${objects.path("inferencemodels", "chat")}/status`, {
      metadata,
      status: { conditions: (await conditions("chat")).map((one) => ({ ...one, status: "Unknown" })) },
    });
    following.writer.start();
    answer!();
    await following.until("the status", async () => (await verdict("chat")) === WON);
  });

  it("is given up for good where it may not be written, in one line", async () => {
    const { namespace, objects, follow, conditions, writes } = await modelPlace();
    for (const name of ["one", "two", "three"]) await objects.model(name, name);
    const rules: PolicyRule[] = [
      mayRead(namespace, "", "pods"),
      mayRead(namespace, GROUP.stable, "inferencepools"),
      mayRead(namespace, GROUP.experimental, "*"),
      mayRead(namespace, GROUP.llmd, "*"),
    ];
    await cluster.server.users.addUser(`reader-${namespace}`, { name: `reader-${namespace}`, rules });
    const following = await follow(`reader-${namespace}`);
    await following.until("a refusal", () => following.warnings.length > 0);
    expect(writes().map(({ status }) => status)).toEqual([403]);
    await objects.model("four", "four");
    await following.until("the fourth", () => following.store.model("four"));
    cluster.server.log.length = 0;
    following.writer.start();
    following.clock.advance(60_000);
    for (let round = 0; round < 3; round++)
      await following.api.request({ method: "GET", path: objects.path("inferencemodels", "four") });
    expect(cluster.server.log.filter(({ path }) => path.endsWith("/one"))).toEqual([]);
    expect(following.warnings).toEqual([
      expect.stringContaining("Sluice no longer writes the status of InferenceModels"),
    ]);
    expect(writes()).toEqual([]);
    expect(await conditions("one")).toEqual([]);
  });

  it("is written with the permissions of api-resources 3.8", async () => {
    const { namespace, objects, follow, verdict } = await modelPlace();
    await objects.model("chat", "chat");
    const rules: PolicyRule[] = [
      mayRead(namespace, "", "pods"),
      mayRead(namespace, GROUP.experimental, "inferencepools", "inferencemodels"),
      {
        ...{ verbs: ["get", "update", "patch"], apiGroups: [GROUP.experimental] },
        ...{ resources: ["inferencemodels/status"], namespace },
      },
    ];
    await cluster.server.users.addUser(`writer-${namespace}`, { name: `writer-${namespace}`, rules });
    const following = await follow(`writer-${namespace}`);
    await following.until("the status", async () => (await verdict("chat")) === WON);
  });

  it("stays as it is after the writer was closed, as by one that leads no more", async () => {
    const { objects, follow, verdict, conditions } = await modelPlace();
    await objects.model("chat", "chat");
    const following = await follow();
    await following.until("the status", async () => (await verdict("chat")) === WON);
    following.writer.close();
    await objects.model("later", "later");
    await following.until("the later one", () => following.store.model("later"));
    following.clock.advance(60_000);
    expect(await conditions("later")).toEqual([]);
    following.writer.start();
    await following.until("its status", async () => (await verdict("later")) === WON);
  });
});
