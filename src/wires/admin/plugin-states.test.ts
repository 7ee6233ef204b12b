import { describe, expect, it } from "vitest";
import { pluginStates } from "./plugin-states.ts";

const made = (name: string, state?: () => unknown) => ({
  ...{ name, type: `${name}-type` },
  ...(state === undefined ? {} : { state }),
});

describe("states of plugins", () => {
  it("S-100: shows each plugin with its state, or with why there is none", () => {
    const states = pluginStates([
      made("prefixes", () => ({ pods: [{ pod: "default/a", blocks: 3 }], totalPods: 1, maxPods: 100 })),
      made("quiet"),
      made("empty", () => undefined),
      made("broken", () => {
        throw new Error("the index is gone");
      }),
      made("cyclic", () => {
        const state: { self?: unknown } = {};
        state.self = state;
        return state;
      }),
    ]);
    expect(states).toEqual({
      prefixes: {
        ...{ name: "prefixes", type: "prefixes-type" },
        state: { pods: [{ pod: "default/a", blocks: 3 }], totalPods: 1, maxPods: 100 },
      },
      quiet: { name: "quiet", type: "quiet-type", message: "tells nothing of its state" },
      empty: { name: "empty", type: "empty-type", message: "has no state at present" },
      broken: { name: "broken", type: "broken-type", message: "cannot tell its state: the index is gone" },
      cyclic: {
        name: "cyclic",
        type: "cyclic-type",
        message: expect.stringMatching(/^cannot tell its state: .*circular/),
      },
    });
  });

  it("shows the one with a state where one name stands for two", () => {
    const [with7, without] = [made("p", () => 7), made("p")];
    expect(pluginStates([with7, without])["p"]?.state).toBe(7);
    expect(pluginStates([without, with7])["p"]?.state).toBe(7);
  });

  it("shows no state of more than a million characters (bound)", () => {
    const sized = (length: number) => made(`p${length}`, () => "x".repeat(length - 2));
    const states = pluginStates([sized(1024 * 1024), sized(1024 * 1024 + 1)]);
    expect(states["p1048576"]?.state).toHaveLength(1024 * 1024 - 2);
    expect(states["p1048577"]?.message).toBe("its state is too long to be shown: 1048577 characters");
  });
});
