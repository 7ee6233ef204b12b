import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { poll } from "../../../test/support/poll.ts";
import { realClock } from "../clock/real.ts";
import { VirtualClock } from "../clock/virtual.ts";
import { FolderWatch, type FolderWatchOptions } from "./folder-watch.ts";

let folder = "";
const open: FolderWatch[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-watch-"));
});

afterEach(async () => {
  for (const watch of open.splice(0)) watch.close();
  await rm(folder, { recursive: true, force: true });
});

/** A watch whose signature the test sets; `changes` holds the signature of each change told. */
function setUp(options: Partial<FolderWatchOptions> = {}) {
  const state = { signature: "1", changes: [] as string[], unwatchable: [] as string[] };
  const watch = new FolderWatch({
    folder,
    clock: realClock,
    signature: async () => state.signature,
    changed: async () => void state.changes.push(state.signature),
    unwatchable: (text) => void state.unwatchable.push(text),
    ...options,
  });
  open.push(watch);
  return { watch, state };
}

describe("FolderWatch", () => {
  it("tells of an event only when the signature differs, once for many events", async () => {
    const { watch, state } = setUp();
    await watch.start("1");
    await writeFile(join(folder, "a"), "x");
    state.signature = "2";
    await writeFile(join(folder, "b"), "x");
    await poll("the change", () => state.changes.length > 0);
    await writeFile(join(folder, "c"), "x");
    state.signature = "3";
    await poll("the next change", () => state.changes.length > 1);
    expect(state.changes).toEqual(["2", "3"]);
  });

  it("does not miss what changed between reading and watching", async () => {
    const { watch, state } = setUp();
    await watch.start("0");
    await poll("the change", () => state.changes.length > 0);
    expect(state.changes).toEqual(["1"]);
  });

  it("looks from time to time where no event comes, a missing folder included", async () => {
    const clock = new VirtualClock();
    const { watch, state } = setUp({ clock, folder: join(folder, "later") });
    await watch.start("1");
    expect(state.unwatchable).toHaveLength(1);
    expect(state.unwatchable[0]).toMatch(/^cannot watch .*later, checking every 5 s instead: /);
    state.signature = "2";
    await clock.advanceAsync(4999);
    expect(state.changes).toEqual([]);
    await clock.advanceAsync(5001);
    expect(state.changes).toEqual(["2"]);
    expect(state.unwatchable).toHaveLength(1);
    await mkdir(join(folder, "later"));
    await clock.advanceAsync(5000);
    await writeFile(join(folder, "later", "a"), "x");
    state.signature = "3";
    await poll("an event of the folder made anew", () => clock.pending === 2);
    await clock.advanceAsync(100);
    expect(state.changes).toEqual(["2", "3"]);
  });

  it("calls one change at a time, and again for what came meanwhile", async () => {
    const clock = new VirtualClock();
    const calls: string[] = [];
    let finish = (): void => {};
    const { watch, state } = setUp({
      clock,
      folder: join(folder, "none"),
      changed: () => {
        calls.push(state.signature);
        return new Promise((resolve) => {
          finish = resolve;
        });
      },
    });
    await watch.start("1");
    state.signature = "2";
    await clock.advanceAsync(5000);
    state.signature = "3";
    await clock.advanceAsync(5000);
    expect(calls).toEqual(["2"]);
    finish();
    await poll("the second call", () => calls.length > 1);
    expect(calls).toEqual(["2", "3"]);
    finish();
  });

  it("leaves no timer behind when it is closed, before the start or after", async () => {
    const clock = new VirtualClock();
    const running = setUp({ clock });
    await running.watch.start("0");
    expect(clock.pending).toBe(2);
    running.watch.close();
    expect(clock.pending).toBe(0);
    const never = setUp({ clock });
    never.watch.close();
    await never.watch.start("0");
    expect(clock.pending).toBe(0);
  });
});
