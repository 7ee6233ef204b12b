import { describe, expect, it } from "vitest";
import { MAX_MODELS, modelNotFound, modelsIn, namesOf, sameModels, serves, statedModels } from "./served-models.ts";

const list = (...data: readonly object[]): string => JSON.stringify({ object: "list", data });
const read = (...data: readonly object[]) => {
  const models = modelsIn(list(...data));
  if (typeof models === "string") throw new Error(models);
  return models;
};

describe("modelsIn", () => {
  it("keeps what clients of vLLM read: times, owners, roots, parents and lengths", () => {
    const { source, byName } = read(
      { id: "base", created: 7, owned_by: "vllm", root: "/models/base", parent: null, max_model_len: 4096 },
      { id: "sql", owned_by: "vllm", root: "/adapters/sql", parent: "base" },
      { id: "bare", created: -1, owned_by: 5, root: "x".repeat(1025) },
    );
    expect(source).toBe("server");
    expect(Object.fromEntries(byName as Exclude<typeof byName, "any">)).toEqual({
      base: { created: 7, ownedBy: "vllm", root: "/models/base", parent: null, maxModelLen: 4096 },
      sql: { created: 0, ownedBy: "vllm", root: "/adapters/sql", parent: "base" },
      bare: { created: 0, ownedBy: "unknown" },
    });
  });

  it.each([
    ["no JSON", "<html>", "not JSON"],
    ["null", "null", "no list"],
    ["another document", '{"models":[]}', "no list"],
    ["an empty list", list(), "no model"],
    ["an entry without a name", list({ id: "a" }, {}), "no usable `id`"],
    ["a null", '{"data":[null]}', "no usable `id`"],
    ["an empty name", list({ id: "" }), "no usable `id`"],
    ["a name with a line feed", list({ id: "a\nb" }), "no usable `id`"],
    ["a name of 1,025 characters", list({ id: "a".repeat(1025) }), "no usable `id`"],
  ])("refuses %s", (_, body, problem) => {
    expect(modelsIn(body)).toContain(problem);
  });

  it("takes 1,024 models and no more", () => {
    const many = (count: number) => list(...Array.from({ length: count }, (_, i) => ({ id: `m${i}` })));
    expect(namesOf(modelsIn(many(MAX_MODELS)) as ReturnType<typeof read>)).toHaveLength(1024);
    expect(modelsIn(many(MAX_MODELS + 1))).toContain("more than 1024");
  });
});

it("an endpoint with unknown models, or with `*`, serves every name", () => {
  expect([undefined, statedModels(["*"]), statedModels(["a"])].map((models) => serves(models, "a"))).toEqual([
    true,
    true,
    true,
  ]);
  expect([undefined, statedModels(["*"]), statedModels(["a"])].map((models) => serves(models, "b"))).toEqual([
    true,
    true,
    false,
  ]);
});

it("two lists are the same whatever their times, and differ by name, source, owner, root, parent and length", () => {
  const one = read({ id: "a", created: 1, owned_by: "v", root: "r", parent: "p", max_model_len: 1 });
  const same = (entry: object) =>
    sameModels(one, read({ ...{ id: "a", created: 1, owned_by: "v", root: "r" }, ...entry }));
  expect(same({ created: 2, parent: "p", max_model_len: 1 })).toBe(true);
  for (const change of [{ id: "b" }, { owned_by: "w" }, { root: "s" }, { parent: "q" }, { max_model_len: 2 }])
    expect(same({ parent: "p", max_model_len: 1, ...change }), JSON.stringify(change)).toBe(false);
  expect(sameModels(one, read({ id: "a" }, { id: "b" }))).toBe(false);
  expect(sameModels(statedModels(["a"]), read({ id: "a", owned_by: "sluice" }))).toBe(false);
  expect(sameModels(statedModels(["a"]), statedModels(["*"]))).toBe(false);
  expect(sameModels(statedModels(["*"]), statedModels(["*"]))).toBe(true);
  expect(sameModels(undefined, undefined)).toBe(true);
  expect(sameModels(one, undefined)).toBe(false);
});

describe("modelNotFound", () => {
  const names = Array.from({ length: 12 }, (_, i) => `model-${String(i).padStart(2, "0")}`);

  it("names at most ten models, and the nearest", () => {
    const { reason, status, detail } = modelNotFound("modle-03", "modle-03", names);
    expect([reason, status]).toEqual(["model_not_found", 404]);
    expect(detail).toBe(
      `no endpoint serves the model \`modle-03\`; did you mean \`model-03\`? The models are ${names
        .slice(0, 10)
        .map((name) => `\`${name}\``)
        .join(", ")} and 2 more.`,
    );
  });

  it("names the alias that led to it, and nothing where there is nothing", () => {
    expect(modelNotFound("target", "chat", ["x"]).detail).toBe(
      "no endpoint serves the model `target`, the target of `chat`. The models are `x`.",
    );
    expect(modelNotFound("target", "", []).detail).toBe("no endpoint serves the model `target`.");
  });

  it("is one line of at most 1,024 characters, whatever the client sends", () => {
    const long = modelNotFound(
      `a\r\n${"x".repeat(1e6)}`,
      "y".repeat(1e6),
      names.map((name) => name.repeat(100)),
    );
    expect(long.detail.length).toBeLessThanOrEqual(1024);
    expect(long.detail).not.toMatch(/[\r\n]/);
  });
});
