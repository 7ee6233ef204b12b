import { describe, expect, it } from "vitest";
import { madeModel, madePool, madeRewrite, rule } from "../../../test/support/resources/made.cases.ts";
import { SeededRandom } from "../../base/clock/random.ts";
import { VirtualClock } from "../../base/clock/virtual.ts";
import type { Caller } from "../../base/inference/caller.ts";
import { HeaderList } from "../../base/inference/headers.ts";
import { EndpointRegistry } from "../../pool/endpoints/registry.ts";
import { modelsIn, type ServedModels, statedModels } from "../../pool/endpoints/served-models.ts";
import { objectivesFromFlags } from "../../pool/resources/objectives.ts";
import type { ResourceObject } from "../../pool/resources/objects.ts";
import { ModelResolver, type ResolverOptions } from "../../pool/resources/resolve.ts";
import { ResourceStore } from "../../pool/resources/resource-store.ts";
import { modelList } from "./model-list.ts";

const listed = (...data: readonly object[]) => modelsIn(JSON.stringify({ data })) as ServedModels;
const CLIENT = { requestId: "r1", answerId: () => "r1" };

/** @param objects absent = no API objects */
function setUp(
  models: readonly (ServedModels | undefined)[],
  objects?: readonly ResourceObject[],
  options: Partial<ResolverOptions> = {},
) {
  const random = new SeededRandom(1);
  const endpoints = new EndpointRegistry({ clock: new VirtualClock(), random });
  for (const [i, served] of models.entries()) {
    const spec = { namespace: "default", name: `e${i}`, address: "10.0.0.1", port: 8000 + i, rank: 0, labels: {} };
    const endpoint = endpoints.upsert({ ...spec, models: served })!;
    if (served?.source === "server") endpoints.listed(endpoint, served);
  }
  const resources = objects && new ResourceStore();
  if (objects !== undefined) resources?.replace(objects);
  const resolver = new ModelResolver({ random, resources, objectives: objectivesFromFlags([]), ...options });
  const answer = modelList({ endpoints, models: resolver });
  const ask = (path: string, method = "GET", caller?: Caller, headers = new HeaderList()) => {
    const given = answer({ method, path, headers }, CLIENT, caller);
    return given && { ...given, json: JSON.parse(given.body.toString()) };
  };
  const names = () => ask("/v1/models")?.json.data.map(({ id }: { id: string }) => id);
  return { endpoints, ask, names };
}

const BASE = { id: "base", created: 9, owned_by: "vllm", root: "/m/base", parent: null, max_model_len: 4096 };
const SQL = { id: "sql", created: 9, owned_by: "vllm", root: "/a/sql", parent: "base" };

describe("GET /v1/models", () => {
  it("is the union of all lists, sorted, one entry for each name, as the servers describe it", () => {
    const { ask } = setUp([statedModels(["base", "alone"]), listed(SQL, BASE), listed({ ...BASE, created: 10 })]);
    const { status, headers, json } = ask("/v1/models?limit=5")!;
    expect(status).toBe(200);
    expect(headers.slice(0, 2)).toEqual(["content-type", "application/json"]);
    expect(headers.slice(-2)).toEqual(["x-request-id", "r1"]);
    expect(json).toEqual({
      object: "list",
      data: [
        { id: "alone", object: "model", created: 0, owned_by: "sluice" },
        { ...BASE, object: "model" },
        { ...SQL, object: "model" },
      ],
    });
  });

  it("has the shape of Anthropic's API for a client that names its version", () => {
    const { ask } = setUp([listed(SQL, BASE)]);
    const anthropic = HeaderList.of([["anthropic-version", "2023-06-01"]]);
    const one = { type: "model", display_name: "base", created_at: "1970-01-01T00:00:09.000Z" };
    const { data, ...page } = ask("/v1/models", "GET", undefined, anthropic)!.json;
    expect(page).toEqual({ has_more: false, first_id: "base", last_id: "sql" });
    expect(data[0]).toEqual({ ...BASE, object: "model", ...one });
    expect(ask("/v1/models/base", "GET", undefined, anthropic)?.json).toEqual(data[0]);
  });

  it("answers HEAD as GET, for the list and for one model", () => {
    const { ask } = setUp([listed(BASE)]);
    for (const path of ["/v1/models", "/v1/models/base", "/v1/models/bas"])
      expect(ask(path, "HEAD"), path).toEqual(ask(path));
  });

  it("follows changes", () => {
    const { endpoints, names } = setUp([listed(BASE), listed(SQL)]);
    expect(names()).toEqual(["base", "sql"]);
    endpoints.listed(endpoints.get("default/e0")!, listed({ id: "new" }));
    expect(names()).toEqual(["new", "sql"]);
    endpoints.remove("default/e1");
    expect(names()).toEqual(["new"]);
  });

  it("has the names of InferenceModels and rewrite rules, and only those where a name needs one", () => {
    const objects = [
      madePool(),
      madeModel("chat", "chat", { targets: [{ name: "base", weight: 1 }] }),
      madeRewrite("rules", [rule("alias", "base"), rule("", "base")]),
    ];
    const off = setUp([listed(BASE)], objects, { matching: "off" });
    expect(off.names()).toEqual(["alias", "base"]);
    const auto = setUp([listed(BASE)], objects);
    expect(auto.names()).toEqual(["alias", "chat"]);
    expect(auto.ask("/v1/models/chat")?.json).toMatchObject({ id: "chat", object: "model" });
    expect(auto.ask("/v1/models/base")?.status).toBe(404);
  });

  it("goes on to an endpoint while no list is known, without a pool, and by other methods and paths", () => {
    expect(setUp([undefined, statedModels(["*"])]).ask("/v1/models")).toBeUndefined();
    expect(setUp([]).ask("/v1/models")).toBeUndefined();
    expect(setUp([]).ask("/v1/models/x")).toBeUndefined();
    expect(setUp([listed(BASE)], []).ask("/v1/models")).toBeUndefined();
    const { ask } = setUp([listed(BASE)]);
    for (const method of ["OPTIONS", "POST"]) expect(ask("/v1/models", method), method).toBeUndefined();
    for (const path of ["/v1/modelsx", "/v1/models/%ff", "/v1/chat/completions"])
      expect(ask(path), path).toBeUndefined();
  });
});

describe("GET /v1/models/NAME", () => {
  it("is one entry, also for names with slashes", () => {
    const { ask } = setUp([listed(SQL, { id: "org/name" })]);
    expect(ask("/v1/models/sql")?.json).toEqual({ ...SQL, object: "model" });
    expect(ask("/v1/models/org/name")?.json.id).toBe("org/name");
    expect(ask("/v1/models/org%2Fname")?.json.id).toBe("org/name");
  });

  it("is the 404 of OpenAI for a name that no endpoint serves, unless an endpoint may still serve it", () => {
    const { ask, endpoints } = setUp([listed(BASE)]);
    expect(ask("/v1/models/bas")).toMatchObject({
      status: 404,
      json: {
        error: {
          message: "no endpoint serves the model `bas`; did you mean `base`? The models are `base`.",
          type: "invalid_request_error",
          param: null,
          code: "model_not_found",
        },
      },
    });
    endpoints.upsert({ namespace: "default", name: "e1", address: "10.0.0.9", port: 1, rank: 0, labels: {} });
    expect(ask("/v1/models/bas")).toBeUndefined();
  });
});

describe("the models of a key", () => {
  const caller = (...models: string[]): Caller => ({
    ...{ id: "k", name: "k", models: new Set(models), choosesFlow: false },
    ...{ objective: undefined, priority: undefined, fairnessId: undefined },
  });

  it("are the only ones in the list, and the only ones that a refusal names", () => {
    const { ask } = setUp([statedModels(["base", "secret"])]);
    expect(ask("/v1/models", "GET", caller("base", "gone"))?.json.data.map(({ id }: { id: string }) => id)).toEqual([
      "base",
    ]);
    expect(ask("/v1/models/base", "GET", caller("base"))?.status).toBe(200);
    const { json } = ask("/v1/models/gone", "GET", caller("base", "gone"))!;
    expect(json.error.message).toContain("The models are `base`.");
  });

  it("are never left to an endpoint, which would list all", () => {
    const { ask } = setUp([undefined]);
    expect(ask("/v1/models")).toBeUndefined();
    expect(ask("/v1/models", "GET", caller("base"))?.json).toEqual({ object: "list", data: [] });
    expect(ask("/v1/models/", "GET", caller("base"))?.json).toEqual({ object: "list", data: [] });
    expect(ask("/v1/models/?x", "GET", caller("base"))?.json).toEqual({ object: "list", data: [] });
    expect(ask("/v1/models", "GET", { ...caller(), models: undefined })).toBeUndefined();
  });
});
