import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { TestCore } from "../../test/support/core.ts";
import { STICKY_CONFIG } from "../config/defaults.ts";
import { effectiveSummary } from "../config/effective.ts";
import { HeaderList } from "../inference/headers.ts";
import { Rejection } from "../inference/outcomes.ts";
import { silentLogger } from "../telemetry/logger.ts";
import { readConfig } from "./config-source.ts";

const EXAMPLE = readFileSync(new URL("../../examples/sticky-until-saturated.yaml", import.meta.url), "utf8");
const PROFILE = "sticky-until-saturated";

/** A pool of three of which `metrics` are known, and where a request that never ends goes. */
function pool(metrics: { waiting?: number; kvUsage?: number } | undefined = {}) {
  const each = metrics === undefined ? {} : { metrics };
  const core = new TestCore({ config: STICKY_CONFIG, endpoints: [each, each, each], objectives: ["low=-1"] });
  const send = (prompt: string, objective = ""): number => {
    const exchange = core.openExchange({ pauseRequest() {}, resumeRequest() {}, evict() {} });
    const headers: [string, string][] = [[":path", "/v1/completions"]];
    if (objective !== "") headers.push(["x-gateway-inference-objective", objective]);
    exchange.requestHeaders(HeaderList.of(headers), false);
    const decision = exchange.requestBody(Buffer.from(JSON.stringify({ model: "m", prompt })), true);
    if (decision === undefined || decision instanceof Rejection || !("endpoints" in decision))
      throw new Error("not routed");
    return Number(decision.endpoints[0]!.name.slice("pod-".length));
  };
  const report = (pod: number, now: { waiting?: number; kvUsage?: number }): void => {
    const endpoint = core.endpoint(pod);
    endpoint.metrics = { ...endpoint.metrics, ...now };
  };
  return { send, report };
}

/** 4 KB: 16 blocks; the same letter is the same prompt but for the end. */
const prompt = (letter: string, end: number): string => `${letter.repeat(4096)} ${end}`;

describe("the profile sticky-until-saturated", () => {
  it("is the same by its name and from the example, and sheds by the same measure as the default", async () => {
    const { source: _, ...byName } = effectiveSummary(await readConfig({ profile: PROFILE }, silentLogger));
    const { source: __, ...byText } = effectiveSummary(await readConfig({ configText: EXAMPLE }, silentLogger));
    expect(byName).toEqual(byText);
    const { saturationDetector } = effectiveSummary(await readConfig({}, silentLogger));
    expect(byName).toMatchObject({ profile: PROFILE, picker: "max-score-picker", saturationDetector });
    const { send } = pool({ waiting: 4 });
    expect(() => send(prompt("a", 0), "low")).not.toThrow();
  });

  it("stays with the endpoint that holds the prompt, whatever is in flight there", () => {
    const { send } = pool({ waiting: 1, kvUsage: 0.79 });
    const home = send(prompt("a", 0));
    for (let n = 1; n <= 40; n++) expect(send(prompt("a", n))).toBe(home);
  });

  it.each([{ waiting: 2 }, { kvUsage: 0.8 }])("leaves it at %j, stays with both then, and returns", (saturated) => {
    const { send, report } = pool();
    const home = send(prompt("a", 0));
    for (let n = 1; n <= 5; n++) send(prompt("a", n));
    report(home, saturated);
    const second = send(prompt("a", 6));
    expect(second).not.toBe(home);
    expect(send(prompt("a", 7))).toBe(second);
    report(home, { waiting: 0, kvUsage: 0 });
    // Six in flight at the first, two at the second: that one gets what makes them even, and the third nothing.
    for (let n = 8; n < 12; n++) expect(send(prompt("a", n))).toBe(second);
    expect(new Set([send(prompt("a", 12)), send(prompt("a", 13))])).toEqual(new Set([home, second]));
    report(second, saturated);
    expect([send(prompt("a", 14)), send(prompt("a", 15))]).toEqual([home, home]);
  });

  it("stays where it is while all endpoints are saturated, and where none tells how it is", () => {
    for (const metrics of [{ waiting: 50 }, undefined]) {
      const { send } = pool(metrics);
      const home = send(prompt("a", 0));
      for (let n = 1; n <= 10; n++) expect(send(prompt("a", n))).toBe(home);
    }
  });

  it("spreads prompts that nobody holds evenly, and sends none of them to the saturated", () => {
    const { send, report } = pool();
    const first = Array.from("abcdefghi", (letter) => send(prompt(letter, 0)));
    expect([1, 2, 3].map((pod) => first.filter((other) => other === pod).length)).toEqual([3, 3, 3]);
    report(2, { waiting: 2 });
    const second = Array.from("jklmno", (letter) => send(prompt(letter, 0)));
    expect([1, 2, 3].map((pod) => second.filter((other) => other === pod).length)).toEqual([3, 0, 3]);
  });
});
