import { describe, expect, it } from "vitest";
import { triggerOf } from "./trigger.ts";

const read = (metadata: Record<string, string>) => triggerOf(new Map(Object.entries(metadata)));

describe("the metadata of a trigger", () => {
  it.each([
    [{ target: "10" }, { metric: "queuedRequests", target: 10, priority: undefined }],
    [
      { metric: "queuedBytes", target: "64Mi" },
      { metric: "queuedBytes", target: 2 ** 26, priority: undefined },
    ],
    [
      { metric: "queuedTokens", target: "20k", priority: "100" },
      { metric: "queuedTokens", target: 20_000, priority: 100 },
    ],
    [
      { metric: "predictedWaitSeconds", target: "2.5", priority: "-10" },
      { metric: "predictedWaitSeconds", target: 2.5, priority: -10 },
    ],
    [
      { scalerAddress: "sluice.llm:9004", enableTLS: "true", unsafeSsl: "false", tlsCertFile: "/c", target: "0.001" },
      { metric: "queuedRequests", target: 0.001, priority: undefined },
    ],
  ])("%j", (metadata, trigger) => {
    expect(read(metadata)).toEqual(trigger);
  });

  it.each([
    [{ targte: "10" }, 'unknown key "targte" in the metadata of the trigger; did you mean `target`?'],
    [
      { prioritiy: "1", target: "1" },
      'unknown key "prioritiy" in the metadata of the trigger; did you mean `priority`?',
    ],
    [
      { target: "1", queueName: "q" },
      'unknown key "queueName" in the metadata of the trigger; known are metric, target, priority',
    ],
    [{ "": "" }, 'unknown key "" in the metadata of the trigger; known are metric, target, priority'],
    [
      { constructor: "1" },
      'unknown key "constructor" in the metadata of the trigger; known are metric, target, priority',
    ],
    [{ metric: "queuedRequest", target: "1" }, 'unknown metric "queuedRequest"; did you mean `queuedRequests`?'],
    [
      { metric: "toString", target: "1" },
      'unknown metric "toString"; known are queuedRequests, queuedBytes, queuedTokens, predictedWaitSeconds',
    ],
    [{}, "target is missing; give the queuedRequests for one replica"],
    [{ metric: "queuedBytes" }, "target is missing; give the queuedBytes for one replica"],
  ])("%j is refused: %s", (metadata, message) => {
    expect(read(metadata)).toBe(message);
  });

  it.each(["", "0", "-1", "0.0009", "1e16", "NaN", "Infinity", "ten", "1 0", "0x10"])(
    "the target %j is refused",
    (target) => {
      expect(read({ target })).toBe(
        `target is ${JSON.stringify(target)}; give a number above 0 such as 10, 2.5 or 64Mi`,
      );
    },
  );

  it.each(["", "1.5", "1e3", "high", "--1", "2147483649", "99999999999"])("the priority %j is refused", (priority) => {
    expect(read({ target: "1", priority })).toBe(
      `priority is ${JSON.stringify(priority)}; give a whole number such as 0 or -10`,
    );
  });

  it("appears in messages on one line, and cut (bound)", () => {
    const message = read({ [`a\n${"x".repeat(5000)}`]: "1" }) as string;
    expect(message).toContain('unknown key "a x');
    expect(message.length).toBeLessThan(250);
  });
});
