import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { realClock } from "../../base/clock/real.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { cpuSamples, heapSamples, type InspectorSession, inspectorProfiler } from "./profiler.ts";

const callFrame = (functionName: string) => ({
  functionName,
  scriptId: "1",
  url: "file:///a.ts",
  lineNumber: 0,
  columnNumber: 0,
});
const names = (frames: readonly { functionName: string }[]) => frames.map(({ functionName }) => functionName);

describe("cpuSamples", () => {
  it("adds up samples and time by stack, innermost first, without the root and without waiting", () => {
    const stacks = cpuSamples({
      nodes: [
        { id: 1, callFrame: callFrame("(root)"), children: [2, 3, 5] },
        { id: 2, callFrame: callFrame("outer"), children: [4] },
        { id: 3, callFrame: callFrame("(idle)") },
        { id: 4, callFrame: callFrame("inner") },
        { id: 5, callFrame: callFrame("(program)") },
      ],
      startTime: 0,
      endTime: 1,
      samples: [1, 4, 3, 4, 2, 5, 4],
      timeDeltas: [5, 100, 1000, 100, 50, 7, -3],
    });
    expect(stacks.map(({ frames, values }) => [names(frames), values])).toEqual([
      [
        ["inner", "outer"],
        [3, 200_000],
      ],
      [["outer"], [1, 50_000]],
      [["(program)"], [1, 7000]],
    ]);
  });

  it("takes a profile without samples", () => {
    expect(cpuSamples({ nodes: [], startTime: 0, endTime: 0 })).toEqual([]);
  });
});

describe("heapSamples", () => {
  it("gives each stack the bytes allocated there, however deep", () => {
    const deep = { callFrame: callFrame("leaf"), selfSize: 7.6, children: [] };
    let node: Parameters<typeof heapSamples>[0] = deep;
    for (let i = 0; i < 5000; i++) node = { callFrame: callFrame(`f${i}`), selfSize: 0, children: [node] };
    const root = { callFrame: callFrame("(root)"), selfSize: 3, children: [node] };
    const stacks = heapSamples(root);
    expect(stacks).toHaveLength(1);
    expect(stacks[0]!.values).toEqual([8]);
    expect(names(stacks[0]!.frames).slice(0, 2)).toEqual(["leaf", "f0"]);
    expect(stacks[0]!.frames).toHaveLength(5001);
  });
});

/** A session that notes what is asked of it. */
function fakeSession(answer: (method: string) => unknown) {
  const asked: string[] = [];
  const session: InspectorSession = {
    connect: () => void asked.push("connect"),
    disconnect: () => void asked.push("disconnect"),
    post: (method: string) => {
      asked.push(method);
      return Promise.resolve(answer(method)) as never;
    },
  };
  return { asked, session };
}

const PROFILE = { nodes: [], startTime: 0, endTime: 0 };
const HEAP = { head: { callFrame: callFrame("(root)"), selfSize: 0, children: [] } };

describe("the profiler", () => {
  it("profiles for as long as it was asked to, one at a time, and is free again afterwards (bound)", async () => {
    const clock = new VirtualClock();
    const { asked, session } = fakeSession((method) =>
      method === "Profiler.stop" ? { profile: PROFILE } : { profile: HEAP },
    );
    const profiler = inspectorProfiler(clock, async () => session);
    const { signal } = new AbortController();
    const first = profiler.take("profile", 30, signal);
    expect(await profiler.take("heap", 1, signal)).toBe("busy");
    await clock.advanceAsync(29_999);
    expect(asked.at(-1)).toBe("Profiler.start");
    await clock.advanceAsync(1);
    expect(gunzipSync((await first) as Uint8Array).length).toBeGreaterThan(0);
    expect(asked.slice(-3)).toEqual(["Profiler.stop", "Profiler.disable", "disconnect"]);
    const second = profiler.take("heap", 1, signal);
    await clock.advanceAsync(1000);
    expect(await second).toBeInstanceOf(Uint8Array);
    expect(asked.slice(-3)).toEqual(["HeapProfiler.stopSampling", "HeapProfiler.disable", "disconnect"]);
  });

  it("ends at once when the one who asked has left", async () => {
    const clock = new VirtualClock();
    const { asked, session } = fakeSession(() => ({ profile: PROFILE }));
    const profiler = inspectorProfiler(clock, async () => session);
    const gone = new AbortController();
    const taking = profiler.take("profile", 60, gone.signal);
    await clock.advanceAsync(1);
    gone.abort();
    await taking;
    expect(asked.at(-1)).toBe("disconnect");
    expect(clock.pending).toBe(0);
  });

  it("says when there is no inspector, and survives one that fails", async () => {
    const { signal } = new AbortController();
    const without = inspectorProfiler(new VirtualClock(), async () => undefined);
    for (let i = 0; i < 2; i++) expect(await without.take("heap", 1, signal)).toBe("unavailable");
    const { asked, session } = fakeSession(() => {
      throw new Error("no profiler today");
    });
    const failing = inspectorProfiler(new VirtualClock(), async () => session);
    for (let i = 0; i < 2; i++) await expect(failing.take("profile", 1, signal)).rejects.toThrow("no profiler today");
    expect(asked.at(-1)).toBe("disconnect");
  });

  it.each(["profile", "heap"] as const)("takes a %s of this very process", async (kind) => {
    const kept: object[] = [];
    const work = setInterval(() => {
      for (let i = 0; i < 2000; i++) kept.push({ text: `${"x".repeat(50)}${i}` });
    }, 1);
    const gone = new AbortController();
    const taking = inspectorProfiler(realClock).take(kind, 60, gone.signal);
    while (kept.length < 40_000) await new Promise((resolve) => setImmediate(resolve));
    gone.abort();
    const profile = gunzipSync((await taking) as Uint8Array).toString("latin1");
    clearInterval(work);
    expect(profile).toContain(kind === "heap" ? "inuse_space" : "nanoseconds");
    expect(profile).toContain("profiler.test.ts");
  });
});
