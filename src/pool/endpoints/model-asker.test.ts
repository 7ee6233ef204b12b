import { expect, it } from "vitest";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import { ASK_INTERVAL, ASK_TIMEOUT, firstLookOver, MAX_ASKING, ModelAsker, START_LOOK } from "./model-asker.ts";
import type { ModelAnswer } from "./model-client.ts";
import { EndpointRegistry } from "./registry.ts";
import { modelsIn, type ServedModels, statedModels } from "./served-models.ts";

const spec = (name: string) => ({ namespace: "default", name, address: "10.0.0.1", port: 8000, rank: 0, labels: {} });
const listing = (...names: readonly string[]): ModelAnswer => ({
  kind: "listed",
  models: modelsIn(JSON.stringify({ data: names.map((id) => ({ id })) })) as ServedModels,
});

function setUp(...names: readonly string[]) {
  const clock = new VirtualClock();
  const registry = new EndpointRegistry({ clock, random: new SeededRandom(1) });
  for (const name of names) registry.upsert(spec(name));
  /** The questions under way, by endpoint. */
  const open = new Map<string, (answer: ModelAnswer) => void>();
  const asked: string[] = [];
  const problems: string[] = [];
  const asker = new ModelAsker({
    ...{ clock, registry, random: new SeededRandom(2) },
    ask({ name }, done) {
      asked.push(name);
      expect(open.has(name)).toBe(false);
      open.set(name, done);
      return { cancel: () => open.delete(name) };
    },
    onProblem: ({ name }, problem) => problems.push(`${name}: ${problem}`),
  });
  const answer = (name: string, given: ModelAnswer): void => {
    const done = open.get(name)!;
    open.delete(name);
    done(given);
  };
  const endpoint = (name: string) => registry.get(`default/${name}`)!;
  /** The endpoints that were asked since the last look. */
  const since = (): string[] => asked.splice(0);
  return { clock, registry, asker, open, since, problems, answer, endpoint };
}

it("asks at the start, when an endpoint comes, and again after 8 to 12 s", () => {
  const { clock, registry, since, answer, endpoint } = setUp("a");
  expect(since()).toEqual(["a"]);
  answer("a", listing("m"));
  expect(endpoint("a").models?.byName).toEqual(new Map([["m", expect.anything()]]));
  registry.upsert(spec("b"));
  expect(since()).toEqual(["b"]);
  answer("b", listing("n"));
  clock.advance(0.8 * ASK_INTERVAL - 1);
  expect(since()).toEqual([]);
  clock.advance(0.4 * ASK_INTERVAL + 12);
  expect(since().sort()).toEqual(["a", "b"]);
});

it("keeps the last answer when a question fails or is late, makes nothing down, and tells each problem once", () => {
  const { clock, since, answer, endpoint, problems, open } = setUp("a");
  const round = (given: ModelAnswer | undefined): void => {
    clock.advance(1.2 * ASK_INTERVAL + 12);
    expect(since()).toEqual(["a"]);
    if (given !== undefined) answer("a", given);
    else clock.advance(ASK_TIMEOUT);
  };
  answer("a", listing("m"));
  since();
  const { models } = endpoint("a");
  round({ kind: "unusable", problem: "HTTP 404" });
  round({ kind: "unusable", problem: "HTTP 404" });
  round({ kind: "silent" });
  round(undefined);
  expect(open.size).toBe(0);
  expect(endpoint("a").models).toBe(models);
  expect(endpoint("a").state).toBe("up");
  round(listing("n"));
  expect(endpoint("a").models).not.toBe(models);
  expect(problems).toEqual(["a: HTTP 404", "a: "]);
});

it("looks for the models from the moment that an endpoint comes until the first answer in HTTP", () => {
  const { clock, registry, answer, endpoint, open } = setUp("a", "b", "c");
  const looks = (): string[] => ["a", "b", "c"].map((name) => endpoint(name).modelLook);
  expect(looks()).toEqual(["open", "open", "open"]);
  answer("a", listing("m"));
  answer("b", { kind: "unusable", problem: "HTTP 404" });
  clock.advance(ASK_TIMEOUT);
  expect(looks()).toEqual(["over", "over", "overdue"]);
  clock.advance(1.2 * ASK_INTERVAL + 12);
  expect([...open.keys()]).toContain("c");
  registry.upsert({ ...spec("c"), models: statedModels(["m"]) });
  answer("c", { kind: "silent" });
  registry.upsert(spec("c"));
  expect(looks()[2]).toBe("open");
  answer("c", { kind: "silent" });
  expect(looks()[2]).toBe("overdue");
  clock.advance(1.2 * ASK_INTERVAL + 12);
  answer("c", { kind: "unusable", problem: "HTTP 404" });
  expect(looks()[2]).toBe("over");
});

it("leaves an endpoint that is down alone, and asks as soon as it is back", () => {
  const { clock, registry, since, answer, endpoint } = setUp("a");
  since();
  registry.attemptFailed(endpoint("a"), "connect", "refused");
  answer("a", { kind: "silent" });
  clock.advance(10 * ASK_INTERVAL);
  expect(since()).toEqual([]);
  registry.attemptSucceeded(endpoint("a"));
  expect(since()).toEqual(["a"]);
});

it("asks nothing where the file states the models, and asks at once when it no longer does", () => {
  const { clock, registry, since, answer, endpoint } = setUp("a");
  since();
  registry.upsert({ ...spec("a"), models: statedModels(["m"]) });
  answer("a", listing("n"));
  expect(endpoint("a").models?.source).toBe("file");
  clock.advance(10 * ASK_INTERVAL);
  expect(since()).toEqual([]);
  registry.upsert(spec("a"));
  expect(since()).toEqual(["a"]);
});

it("asks at most 16 at once, the others as places come free, also those of endpoints that leave", () => {
  const names = Array.from({ length: 20 }, (_, i) => `e${i}`);
  const { registry, asker, since, answer } = setUp(...names);
  expect(since()).toEqual(names.slice(0, MAX_ASKING));
  expect(asker.asking).toBe(MAX_ASKING);
  answer("e3", listing("m"));
  expect(since()).toEqual(["e16"]);
  registry.remove("default/e17");
  registry.remove("default/e0");
  expect(since()).toEqual(["e18"]);
  expect(asker.asking).toBe(MAX_ASKING);
});

it("cancels what is under way when an endpoint leaves or the asker closes, and asks no more", () => {
  const { clock, registry, asker, open, since } = setUp("a", "b");
  registry.remove("default/a");
  expect([...open.keys()]).toEqual(["b"]);
  asker.close();
  expect(open.size).toBe(0);
  since();
  registry.upsert(spec("c"));
  clock.advance(10 * ASK_INTERVAL);
  expect(since()).toEqual([]);
  expect(asker.asking).toBe(0);
});

it("the first look of a pool is over when every server has answered, or after a second", async () => {
  const { clock, registry, answer, endpoint } = setUp("a", "b", "c");
  const over: string[] = [];
  const look = (name: string): void => void firstLookOver(registry, clock).then(() => over.push(name));
  look("all");
  answer("a", listing("m"));
  registry.attemptFailed(endpoint("c"), "connect", "refused");
  await clock.advanceAsync(START_LOOK - 1);
  expect(over).toEqual([]);
  answer("b", { kind: "silent" });
  await clock.advanceAsync(0);
  expect(over).toEqual(["all"]);
  registry.upsert(spec("d"));
  look("late");
  await clock.advanceAsync(START_LOOK - 1);
  expect(over).toEqual(["all"]);
  await clock.advanceAsync(1);
  expect(over).toEqual(["all", "late"]);
  answer("d", listing("m"));
  look("nothing");
  await clock.advanceAsync(0);
  expect(over).toEqual(["all", "late", "nothing"]);
});
