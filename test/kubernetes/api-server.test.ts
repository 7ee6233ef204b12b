import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type ApiObject, startApiServer, type TestApiServer } from "../support/apiserver/index.ts";
import type { Json } from "../support/apiserver/object.ts";
import { SocketClient } from "../support/apiserver/send.ts";
import { poll } from "../support/poll.ts";

// What the Kubernetes tests rely on, one group per topic, on the API server that they run against: where the stand-in and
// a real server differ, the stand-in is wrong. What only the stand-in can do is in stand-in.test.ts.

const PODS = "/api/v1/namespaces/facts/pods";
const LEASES = "/apis/coordination.k8s.io/v1/namespaces/facts/leases";
const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS = "/apis/test.example.com/v1/namespaces/facts/things";

const users = {
  "reader-token": {
    name: "reader",
    groups: ["readers"],
    rules: [
      { verbs: ["get", "list", "watch"], apiGroups: [""], resources: ["pods"], namespace: "facts" },
      { verbs: ["get"], nonResourceURLs: ["/metrics"] },
      { verbs: ["get"], apiGroups: ["coordination.k8s.io"], resources: ["leases"], resourceNames: ["mine"] },
    ],
  },
};

const thingSchema = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      required: ["size"],
      properties: {
        size: { type: "integer", minimum: 1, maximum: 10 },
        color: { type: "string", enum: ["red", "blue"], default: "red" },
        name: { type: "string", maxLength: 5, pattern: "^[a-z]*$" },
        parts: {
          type: "array",
          maxItems: 3,
          items: {
            type: "object",
            required: ["id"],
            properties: { id: { type: "integer" }, note: { type: "string" } },
          },
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["id"],
        },
        fixed: {
          type: "string",
          "x-kubernetes-validations": [{ rule: "self == oldSelf", message: "fixed is immutable" }],
        },
      },
      "x-kubernetes-validations": [
        { rule: "!has(self.name) || self.size > 1", message: "a name needs a size above 1" },
      ],
    },
    status: { type: "object", properties: { ready: { type: "boolean" }, seen: { type: "integer" } } },
  },
};

const thingCrd = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "things.test.example.com" },
  spec: {
    group: "test.example.com",
    scope: "Namespaced",
    names: { kind: "Thing", listKind: "ThingList", plural: "things", singular: "thing" },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: { openAPIV3Schema: thingSchema },
      },
    ],
  },
};

const thing = (name: string, spec: object, more: object = {}) => ({
  apiVersion: "test.example.com/v1",
  kind: "Thing",
  metadata: { name },
  spec,
  ...more,
});
const pod = (name: string, labels: Record<string, string> = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: "facts", labels },
  spec: { containers: [{ name: "server", image: "server" }] },
});
const lease = (name: string, spec: object) => ({
  apiVersion: "coordination.k8s.io/v1",
  kind: "Lease",
  metadata: { name, namespace: "facts" },
  spec,
});

let server: TestApiServer;
let client: SocketClient;
beforeAll(async () => {
  server = await startApiServer({ users, tls: true });
  client = new SocketClient(server);
  await server.put({ apiVersion: "v1", kind: "Namespace", metadata: { name: "facts" } });
  await server.put(thingCrd);
});
afterAll(async () => {
  await client?.close();
  await server?.close();
});
afterEach(async () => {
  for (const path of [PODS, LEASES, THINGS]) await server.request("DELETE", path);
});

/** The answer's object, where the status is the one expected. */
async function send(
  status: number,
  method: string,
  path: string,
  body?: unknown,
  contentType?: string,
): Promise<ApiObject> {
  const answer = await client.send(method, path, body, contentType === undefined ? {} : { contentType });
  expect([answer.status, answer.status === status ? "" : answer.body]).toEqual([status, ""]);
  return answer.body as ApiObject;
}
const listed = (list: unknown) => (list as { items: ApiObject[] }).items.map(({ metadata }) => metadata.name);
const revision = (object: unknown) => (object as ApiObject).metadata.resourceVersion!;
const causes = (status: unknown) =>
  (status as { details: { causes: { reason: string; field: string; message: string }[] } }).details.causes;

describe("list", () => {
  it("comes in pages of one moment, with the count of what is left", async () => {
    for (const name of ["c", "a", "e", "b", "d"]) await server.put(pod(name));
    const first = await send(200, "GET", `${PODS}?limit=2`);
    expect(listed(first)).toEqual(["a", "b"]);
    expect(first).toMatchObject({ kind: "PodList", apiVersion: "v1", metadata: { remainingItemCount: 3 } });
    expect((first["items"] as Json[])[0]).not.toHaveProperty("kind");
    await server.put(pod("b2"));
    await server.delete(`${PODS}/d`);
    const token = encodeURIComponent(String(first.metadata["continue"]));
    const second = await send(200, "GET", `${PODS}?limit=2&continue=${token}`);
    // As it was when the list began.
    expect([listed(second), revision(second)]).toEqual([["c", "d"], revision(first)]);
    const last = await send(
      200,
      "GET",
      `${PODS}?limit=2&continue=${encodeURIComponent(String(second.metadata["continue"]))}`,
    );
    expect(listed(last)).toEqual(["e"]);
    expect(last.metadata).not.toHaveProperty("continue");
  });

  it.each([
    ["labelSelector=app=x", ["a", "b"]],
    ["labelSelector=app!=x", ["c", "d"]],
    ["labelSelector=app in (x,y),tier", ["b", "c"]],
    ["labelSelector=app notin (x)", ["c", "d"]],
    ["labelSelector=!tier", ["a", "d"]],
    ["fieldSelector=metadata.name=b", ["b"]],
    ["fieldSelector=metadata.name=b&labelSelector=app=y", []],
  ])("%s", async (query, names) => {
    await server.put(pod("a", { app: "x" }));
    await server.put(pod("b", { app: "x", tier: "1" }));
    await server.put(pod("c", { app: "y", tier: "2" }));
    await server.put(pod("d"));
    expect(listed(await send(200, "GET", `${PODS}?${encodeURI(query)}`))).toEqual(names);
  });
});

describe("watch", () => {
  it("tells every change after the version it begins at, and resumes anywhere", async () => {
    const list = await send(200, "GET", PODS);
    const watch = await client.watch(`${PODS}?watch=true&resourceVersion=${revision(list)}`);
    await server.put(pod("a", { app: "x" }));
    await server.put(pod("a", { app: "y" }));
    await server.delete(`${PODS}/a`);
    await poll("its end", () => watch.told().includes("DELETED a"));
    // A pod is marked as being deleted before it is removed, also one that no node has.
    expect(watch.told()).toEqual(["ADDED a", "MODIFIED a", "MODIFIED a", "DELETED a"]);
    expect(watch.events[1]!.object.metadata).not.toHaveProperty("deletionTimestamp");
    expect(watch.events[2]!.object.metadata).toMatchObject({
      deletionTimestamp: expect.any(String),
      deletionGracePeriodSeconds: 0,
    });
    expect(watch.events[1]!.object).toMatchObject({
      kind: "Pod",
      apiVersion: "v1",
      metadata: { labels: { app: "y" } },
    });
    const versions = watch.events.map(({ object }) => Number(revision(object)));
    expect(versions).toEqual([...versions].sort((a, b) => a - b));
    const resumed = await client.watch(`${PODS}?watch=true&resourceVersion=${versions[0]}`);
    await poll("its end, once more", () => resumed.told().includes("DELETED a"));
    expect(resumed.told()).toEqual(["MODIFIED a", "MODIFIED a", "DELETED a"]);
  });

  it("tells the end of an object of a definition at once: it is not marked before", async () => {
    await send(201, "POST", THINGS, thing("a", { size: 1 }));
    const list = await send(200, "GET", THINGS);
    const watch = await client.watch(`${THINGS}?watch=true&resourceVersion=${revision(list)}`);
    await server.delete(`${THINGS}/a`);
    await poll("its end", () => watch.told().includes("DELETED a"));
    expect(watch.told()).toEqual(["DELETED a"]);
  });

  it("tells an object that begins or ceases to match a selector as ADDED or DELETED", async () => {
    await server.put(pod("a", { app: "x" }));
    const list = await send(200, "GET", PODS);
    const watch = await client.watch(`${PODS}?watch=true&labelSelector=app%3Dx&resourceVersion=${revision(list)}`);
    await server.put(pod("a", { app: "y" }));
    await server.put(pod("b", { app: "y" }));
    await server.put(pod("b", { app: "x" }));
    await poll("two events", () => watch.events.length === 2);
    expect(watch.told()).toEqual(["DELETED a", "ADDED b"]);
  });

  it("without a version begins with what there is", async () => {
    await server.put(pod("a"));
    const watch = await client.watch(`${PODS}?watch=true`);
    await poll("an event", () => watch.events.length === 1);
    expect(watch.told()).toEqual(["ADDED a"]);
  });

  it("ends in order at timeoutSeconds, with a bookmark 2 s before where bookmarks are allowed: a shorter one has none", async () => {
    const list = await send(200, "GET", PODS);
    const watched = (seconds: number) =>
      client.watch(
        `${PODS}?watch=true&allowWatchBookmarks=true&resourceVersion=${revision(list)}&timeoutSeconds=${seconds}`,
      );
    let tries = 0;
    const { short, long, made } = await poll("a change before the last bookmark", async () => {
      const begun = performance.now();
      const [short, long] = await Promise.all([watched(1), watched(4)]);
      const labels = { n: String(tries++) };
      const made = await server.put({ ...pod("a"), metadata: { name: "a", namespace: "default", labels } });
      // Whoever comes later than that, as this process stood still, may have missed the bookmark.
      return performance.now() - begun < 2000 ? { short, long, made } : undefined;
    });
    await poll("both ends", () => short.ended && long.ended);
    expect([short.ended, long.ended]).toEqual(["in order", "in order"]);
    expect(short.events).toEqual([]);
    // One, or two: a real server counts in seconds.
    expect(new Set(long.events.map(({ type }) => type))).toEqual(new Set(["BOOKMARK"]));
    expect(Number(revision(long.events[0]!.object))).toBeGreaterThanOrEqual(Number(revision(made)));
    await server.delete("/api/v1/namespaces/default/pods/a");
  });

  it("has no bookmark to send while nothing of the kind has changed anywhere", async () => {
    const list = await send(200, "GET", PODS);
    const from = `resourceVersion=${revision(list)}&timeoutSeconds=4`;
    const watch = await client.watch(`${PODS}?watch=true&allowWatchBookmarks=true&${from}`);
    await server.put(lease("another-kind", {}));
    await poll("the end", () => watch.ended);
    expect([watch.ended, watch.events]).toEqual(["in order", []]);
  });

  it("with sendInitialEvents lists before it watches", async () => {
    await server.put(pod("a"));
    await server.put(pod("b"));
    const query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    const watch = await client.watch(`${PODS}?watch=true&${query}`);
    const end = await poll("the end of the list", () => watch.events.find(({ type }) => type === "BOOKMARK"));
    expect(watch.told()).toEqual(["ADDED a", "ADDED b"]);
    expect(end.object.metadata.annotations).toEqual({ "k8s.io/initial-events-end": "true" });
    await server.put(pod("c"));
    await poll("the change after it", () => watch.told().at(-1) === "ADDED c");
    const { body } = await client.send("GET", `${PODS}?watch=true&sendInitialEvents=true`);
    expect(body).toMatchObject({ kind: "Status", code: 422, reason: "Invalid" });
  });
});

describe("create", () => {
  it("answers 201 with what the server adds, and 409 AlreadyExists for a name that is taken", async () => {
    const made = await send(201, "POST", PODS, { ...pod("a"), status: { podIP: "127.0.0.9" } });
    expect(made.metadata).toMatchObject({
      uid: expect.stringMatching(/^[-0-9a-f]{36}$/),
      creationTimestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/),
      resourceVersion: expect.stringMatching(/^\d+$/),
    });
    // The status of a pod is not its creator's to say.
    expect(made["status"]).toMatchObject({ phase: "Pending" });
    expect(made["status"]).not.toHaveProperty("podIP");
    expect(await send(409, "POST", PODS, pod("a"))).toMatchObject({
      kind: "Status",
      reason: "AlreadyExists",
      message: 'pods "a" already exists',
    });
  });

  it("gives a name for generateName", async () => {
    const { metadata, ...rest } = pod("");
    const body = { ...rest, metadata: { namespace: metadata.namespace, generateName: "pod-" } };
    const names = [await send(201, "POST", PODS, body), await send(201, "POST", PODS, body)].map(
      (made) => made.metadata.name,
    );
    expect(names).toEqual([expect.stringMatching(/^pod-[a-z0-9]{5}$/), expect.stringMatching(/^pod-[a-z0-9]{5}$/)]);
    expect(names[0]).not.toBe(names[1]);
  });

  it("refuses what is not there to be made in or made of", async () => {
    const nowhere = { ...pod("a"), metadata: { name: "a", namespace: "nowhere" } };
    expect(await send(404, "POST", "/api/v1/namespaces/nowhere/pods", nowhere)).toMatchObject({
      message: 'namespaces "nowhere" not found',
    });
    expect(await send(404, "GET", `${PODS}/none`)).toMatchObject({
      reason: "NotFound",
      message: 'pods "none" not found',
    });
    const { status, body } = await client.send("GET", "/apis/unknown.example.com/v1/namespaces/facts/things");
    expect([status, body]).toEqual([404, "404 page not found\n"]);
  });
});

describe("update", () => {
  it("with a version that is no longer the current one: 409 Conflict", async () => {
    const old = await send(201, "POST", PODS, pod("a"));
    await send(200, "PUT", `${PODS}/a`, { ...old, metadata: { ...old.metadata, labels: { n: "1" } } });
    const stale = { ...old, metadata: { ...old.metadata, labels: { n: "2" } } };
    expect(await send(409, "PUT", `${PODS}/a`, stale)).toMatchObject({
      kind: "Status",
      reason: "Conflict",
      details: { name: "a", kind: "pods" },
      message: expect.stringContaining("the object has been modified"),
    });
    const { resourceVersion: _, ...metadata } = stale.metadata;
    const written = await send(200, "PUT", `${PODS}/a`, { ...stale, metadata });
    expect(written.metadata.labels).toEqual({ n: "2" });
  });

  it("without a version: any pod, but no lease and no custom object", async () => {
    await send(201, "POST", LEASES, lease("a", {}));
    expect(causes(await send(422, "PUT", `${LEASES}/a`, lease("a", {})))[0]).toMatchObject({
      field: "metadata.resourceVersion",
      message: expect.stringContaining("must be specified for an update"),
    });
    await send(201, "POST", THINGS, thing("a", { size: 1 }));
    expect(causes(await send(422, "PUT", `${THINGS}/a`, thing("a", { size: 2 })))[0]!.field).toBe(
      "metadata.resourceVersion",
    );
  });

  it("that changes nothing keeps the version; generation counts changes of the spec", async () => {
    const made = await send(201, "POST", THINGS, thing("a", { size: 1 }));
    const same = await send(200, "PUT", `${THINGS}/a`, made);
    expect([revision(same), same.metadata.generation]).toEqual([revision(made), 1]);
    const labelled = await send(200, "PUT", `${THINGS}/a`, {
      ...made,
      metadata: { ...made.metadata, labels: { a: "b" } },
    });
    expect(labelled.metadata.generation).toBe(1);
    const changed = await send(200, "PUT", `${THINGS}/a`, { ...labelled, spec: { size: 2 } });
    expect(changed.metadata.generation).toBe(2);
  });

  it("by merge patch and JSON patch", async () => {
    await send(201, "POST", THINGS, thing("a", { size: 1, name: undefined }));
    const merged = await send(
      200,
      "PATCH",
      `${THINGS}/a`,
      { spec: { size: 4, color: null } },
      "application/merge-patch+json",
    );
    expect(merged["spec"]).toEqual({ size: 4, color: "red" });
    const patch = [{ op: "replace", path: "/spec/size", value: 5 }];
    expect((await send(200, "PATCH", `${THINGS}/a`, patch, "application/json-patch+json"))["spec"]).toMatchObject({
      size: 5,
    });
    await send(415, "PATCH", `${THINGS}/a`, {}, "application/strategic-merge-patch+json");
  });
});

describe("delete", () => {
  it("waits for finalizers, and tells by deletionTimestamp that it does", async () => {
    const body = { ...thing("a", { size: 1 }), metadata: { name: "a", finalizers: ["test.example.com/hold"] } };
    await send(201, "POST", THINGS, body);
    const going = await send(200, "DELETE", `${THINGS}/a`);
    expect(going.metadata.deletionTimestamp).toMatch(/^\d{4}-/);
    await send(200, "PATCH", `${THINGS}/a`, { metadata: { finalizers: null } }, "application/merge-patch+json");
    await send(404, "GET", `${THINGS}/a`);
  });

  it("waits for the node of a pod that has one", async () => {
    await send(201, "POST", PODS, { ...pod("a"), spec: { ...pod("a").spec, nodeName: "n1" } });
    await send(200, "DELETE", `${PODS}/a`);
    const going = await send(200, "GET", `${PODS}/a`);
    expect(going.metadata).toMatchObject({ deletionGracePeriodSeconds: 30, deletionTimestamp: expect.any(String) });
    await send(200, "DELETE", `${PODS}/a?gracePeriodSeconds=0`);
    await send(404, "GET", `${PODS}/a`);
  });

  it("with a precondition that does not hold: 409", async () => {
    const made = await send(201, "POST", THINGS, thing("a", { size: 1 }));
    await send(409, "DELETE", `${THINGS}/a`, { preconditions: { uid: "00000000-0000-4000-8000-000000000000" } });
    await send(200, "DELETE", `${THINGS}/a`, { preconditions: { uid: made.metadata.uid } });
  });
});

describe("status", () => {
  it("is a part of its own: neither write touches the other", async () => {
    const made = await send(201, "POST", THINGS, thing("a", { size: 1 }, { status: { ready: true } }));
    expect(made).not.toHaveProperty("status");
    const told = await send(200, "PUT", `${THINGS}/a/status`, { ...made, spec: { size: 9 }, status: { ready: true } });
    expect(told).toMatchObject({ spec: { size: 1 }, status: { ready: true }, metadata: { generation: 1 } });
    const changed = await send(200, "PUT", `${THINGS}/a`, { ...told, spec: { size: 2 }, status: { ready: false } });
    expect(changed).toMatchObject({ spec: { size: 2 }, status: { ready: true }, metadata: { generation: 2 } });
    const patch = { spec: { size: 3 }, status: { seen: 1 } };
    const patched = await send(200, "PATCH", `${THINGS}/a/status`, patch, "application/merge-patch+json");
    expect(patched).toMatchObject({ spec: { size: 2 }, status: { ready: true, seen: 1 } });
  });

  it("makes a pod ready", async () => {
    const made = await send(201, "POST", PODS, pod("a"));
    const status = { podIP: "127.0.0.2", conditions: [{ type: "Ready", status: "True" }] };
    expect((await send(200, "PUT", `${PODS}/a/status`, { ...made, status }))["status"]).toMatchObject(status);
  });
});

describe("apply", () => {
  const apply = (status: number, manager: string, body: unknown, query = "", path = `${THINGS}/a`) =>
    send(status, "PATCH", `${path}?fieldManager=${manager}${query}`, body, "application/apply-patch+yaml");

  it("makes what is missing and gives its fields to who applies", async () => {
    const made = await apply(201, "one", thing("a", { size: 1 }));
    expect(made.metadata.managedFields).toMatchObject([
      {
        manager: "one",
        operation: "Apply",
        apiVersion: "test.example.com/v1",
        fieldsV1: { "f:spec": { "f:size": {} } },
      },
    ]);
    expect(revision(await apply(200, "one", thing("a", { size: 1 })))).toBe(revision(made));
  });

  it("refuses a field of somebody else unless it is forced", async () => {
    await apply(201, "one", thing("a", { size: 1 }));
    const refused = await apply(409, "two", thing("a", { size: 2 }));
    expect(refused).toMatchObject({
      kind: "Status",
      reason: "Conflict",
      details: { causes: [{ reason: "FieldManagerConflict", field: ".spec.size", message: 'conflict with "one"' }] },
    });
    // Who wants the same shares the field.
    await apply(200, "three", thing("a", { size: 1 }));
    const forced = await apply(200, "two", thing("a", { size: 2 }), "&force=true");
    expect([forced["spec"], forced.metadata.managedFields!.map(({ manager }) => manager)]).toEqual([
      { size: 2, color: "red" },
      ["two"],
    ]);
  });

  it("finds who wrote a field by an update, too", async () => {
    await send(201, "POST", `${THINGS}?fieldManager=maker`, thing("a", { size: 1 }));
    const refused = await apply(409, "two", thing("a", { size: 2 }));
    expect(causes(refused)[0]!.message).toContain('conflict with "maker" using test.example.com/v1');
  });

  it("removes what its manager no longer wants and nobody else owns; items of lists go by their keys", async () => {
    await apply(201, "one", thing("a", { size: 1, name: undefined, parts: [{ id: 1 }, { id: 2, note: "x" }] }));
    await apply(200, "two", thing("a", { size: 1, parts: [{ id: 2, note: "x" }, { id: 3 }] }));
    const left = await apply(200, "one", thing("a", { size: 1 }));
    expect(left["spec"]).toEqual({ size: 1, color: "red", parts: [{ id: 2, note: "x" }, { id: 3 }] });
  });

  it("of a status leaves the rest alone", async () => {
    await send(201, "POST", THINGS, thing("a", { size: 1 }));
    const path = `${THINGS}/a/status`;
    const body = { apiVersion: "test.example.com/v1", kind: "Thing", metadata: { name: "a" } };
    const told = await apply(200, "writer", { ...body, status: { ready: true } }, "&force=true", path);
    expect(told).toMatchObject({ spec: { size: 1 }, status: { ready: true } });
    const refused = await apply(409, "other", { ...body, status: { ready: false } }, "", path);
    expect(causes(refused)[0]).toMatchObject({ field: ".status.ready" });
    const none = await apply(200, "writer", { ...body, status: { seen: 1 } }, "", path);
    expect(none["status"]).toEqual({ seen: 1 });
  });
});

describe("validation", () => {
  it.each([
    ["a missing field", {}, "FieldValueRequired", "spec.size", "Required value"],
    ["another type", { size: "1" }, "FieldValueTypeInvalid", "spec.size", "must be of type integer"],
    ["a number too small", { size: 0 }, "FieldValueInvalid", "spec.size", "should be greater than or equal to 1"],
    ["a number too large", { size: 11 }, "FieldValueInvalid", "spec.size", "should be less than or equal to 10"],
    [
      "no value of an enum",
      { size: 1, color: "green" },
      "FieldValueNotSupported",
      "spec.color",
      'supported values: "red", "blue"',
    ],
    ["a text too long", { size: 2, name: "abcdef" }, "FieldValueTooLong", "spec.name", "Too long"],
    ["a text against its pattern", { size: 2, name: "A" }, "FieldValueInvalid", "spec.name", "should match '^[a-z]*$'"],
    [
      "too many items",
      { size: 1, parts: [1, 2, 3, 4].map((id) => ({ id })) },
      "FieldValueTooMany",
      "spec.parts",
      "must have at most 3 items",
    ],
    [
      "the same key twice",
      { size: 1, parts: [{ id: 1 }, { id: 1 }] },
      "FieldValueDuplicate",
      "spec.parts[1]",
      "Duplicate value",
    ],
    [
      "a field missing in an item",
      { size: 1, parts: [{}] },
      "FieldValueRequired",
      "spec.parts[0].id",
      "Required value",
    ],
    ["a rule in CEL", { size: 1, name: "a" }, "FieldValueInvalid", "spec", "a name needs a size above 1"],
  ])("%s: 422 with the field", async (_, spec, reason, field, message) => {
    const status = await send(422, "POST", THINGS, thing("a", spec));
    expect(status).toMatchObject({
      kind: "Status",
      reason: "Invalid",
      details: { name: "a", kind: "Thing", group: "test.example.com" },
    });
    expect(causes(status)).toContainEqual({ reason, field, message: expect.stringContaining(message) });
  });

  it("drops unknown fields and nulls, fills in defaults; Strict refuses unknown fields", async () => {
    const body = thing("a", { size: 1, color: null, parts: null, extra: 1 });
    expect((await send(201, "POST", THINGS, body))["spec"]).toEqual({ size: 1, color: "red" });
    const refused = await send(400, "POST", `${THINGS}?fieldValidation=Strict`, thing("b", { size: 1, extra: 1 }));
    expect(refused["message"]).toContain('unknown field "spec.extra"');
  });

  it("asks rules about the old value on updates only", async () => {
    const made = await send(201, "POST", THINGS, thing("a", { size: 1, fixed: "x" }));
    const status = await send(422, "PUT", `${THINGS}/a`, { ...made, spec: { size: 1, fixed: "y" } });
    expect(causes(status)[0]).toMatchObject({
      field: "spec.fixed",
      message: expect.stringContaining("fixed is immutable"),
    });
  });

  it("of definitions: a protected group needs its approval, a rule has to compile", async () => {
    const group = "test.k8s.io";
    const unapproved = { ...thingCrd, metadata: { name: `things.${group}` }, spec: { ...thingCrd.spec, group } };
    expect(causes(await send(422, "POST", CRDS, unapproved))[0]!.message).toContain("api-approved.kubernetes.io");
    const text = JSON.stringify(thingCrd)
      .replaceAll("test.example.com", "other.example.com")
      .replace("self == oldSelf", "self ==");
    expect(causes(await send(422, "POST", CRDS, JSON.parse(text)))[0]!.message).toContain("compilation failed");
  });

  it("a definition that is deleted takes its objects and its path along", async () => {
    const text = JSON.stringify(thingCrd).replaceAll("test.example.com", "gone.example.com");
    await server.put(JSON.parse(text));
    const path = "/apis/gone.example.com/v1/namespaces/facts/things";
    await send(201, "POST", path, { ...thing("a", { size: 1 }), apiVersion: "gone.example.com/v1" });
    await server.delete(`${CRDS}/things.gone.example.com`);
    await poll("the path to be gone", async () => (await client.send("GET", path)).status === 404);
  });
});

describe("discovery", () => {
  it("names groups, versions and resources", async () => {
    const groups = (await send(200, "GET", "/apis")) as unknown as { groups: { name: string }[] };
    expect(groups.groups.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["coordination.k8s.io", "test.example.com"]),
    );
    expect(await send(200, "GET", "/apis/test.example.com")).toMatchObject({
      kind: "APIGroup",
      preferredVersion: { groupVersion: "test.example.com/v1", version: "v1" },
    });
    const { resources } = (await send(200, "GET", "/apis/test.example.com/v1")) as unknown as { resources: Json[] };
    expect(resources).toEqual([
      expect.objectContaining({ name: "things", kind: "Thing", namespaced: true }),
      expect.objectContaining({ name: "things/status", kind: "Thing" }),
    ]);
  });
});

describe("Lease", () => {
  it("keeps times in microseconds; of two who race for it the second gets 409", async () => {
    const spec = { holderIdentity: "a", leaseDurationSeconds: 15, renewTime: "2026-01-02T03:04:05.000006Z" };
    const made = await send(201, "POST", LEASES, lease("l", spec));
    expect(made["spec"]).toEqual(spec);
    const take = (holderIdentity: string) => ({ ...made, spec: { ...spec, holderIdentity } });
    await send(200, "PUT", `${LEASES}/l`, take("b"));
    expect(await send(409, "PUT", `${LEASES}/l`, take("c"))).toMatchObject({ reason: "Conflict" });
    expect((await send(422, "POST", LEASES, lease("m", { ...spec, leaseDurationSeconds: 0 })))["reason"]).toBe(
      "Invalid",
    );
  });
});

describe("Event", () => {
  it("has to be in the namespace of its object", async () => {
    const event = (namespace: string) => ({
      apiVersion: "v1",
      kind: "Event",
      metadata: { generateName: "e-", namespace: "facts" },
      involvedObject: { kind: "Pod", name: "a", namespace },
      reason: "Tried",
      type: "Warning",
    });
    await send(201, "POST", "/api/v1/namespaces/facts/events", event("facts"));
    expect(causes(await send(422, "POST", "/api/v1/namespaces/facts/events", event("other")))[0]).toMatchObject({
      field: "involvedObject.namespace",
      message: expect.stringContaining("does not match event.namespace"),
    });
  });
});

describe("reviews", () => {
  const TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews";
  const ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
  const tokenReview = (token: string) => ({
    apiVersion: "authentication.k8s.io/v1",
    kind: "TokenReview",
    spec: { token },
  });
  const access = (spec: object) => ({ apiVersion: "authorization.k8s.io/v1", kind: "SubjectAccessReview", spec });

  it("tell whose a token is", async () => {
    const known = await send(201, "POST", TOKENS, tokenReview("reader-token"));
    expect(known["status"]).toMatchObject({
      authenticated: true,
      user: { username: "reader", groups: ["readers", "system:authenticated"] },
    });
    const unknown = await send(201, "POST", TOKENS, tokenReview("nobody's"));
    expect((unknown["status"] as Json)["authenticated"]).not.toBe(true);
  });

  it("tell what somebody may do", async () => {
    const ask = async (path: string) => {
      const spec = { user: "reader", groups: ["readers"], nonResourceAttributes: { path, verb: "get" } };
      return (await send(201, "POST", ACCESS, access(spec)))["status"];
    };
    expect(await ask("/metrics")).toMatchObject({ allowed: true, reason: expect.stringContaining("RBAC: allowed by") });
    expect(await ask("/secret")).toMatchObject({ allowed: false });
    const resourceAttributes = { verb: "list", resource: "pods", namespace: "facts" };
    expect((await send(201, "POST", ACCESS, access({ user: "reader", resourceAttributes })))["status"]).toMatchObject({
      allowed: true,
    });
  });
});

describe("who asks", () => {
  it("without a token, or with one that nobody has: 401 with a Status", async () => {
    for (const token of [null, "nobody's"]) {
      const { status, body } = await client.send("GET", PODS, undefined, { token });
      expect([status, body]).toMatchObject([401, { kind: "Status", reason: "Unauthorized", code: 401 }]);
    }
  });

  it("may do what the rules say and nothing else: 403 with a Status", async () => {
    const as = async (method: string, path: string) =>
      (await client.send(method, path, undefined, { token: "reader-token" })).status;
    expect(await as("GET", PODS)).toBe(200);
    expect(await as("GET", "/api/v1/namespaces/default/pods")).toBe(403);
    expect(await as("DELETE", PODS)).toBe(403);
    expect(await as("GET", `${LEASES}/mine`)).toBe(404);
    expect(await as("GET", `${LEASES}/other`)).toBe(403);
    const { body } = await client.send("GET", LEASES, undefined, { token: "reader-token" });
    expect(body).toMatchObject({
      kind: "Status",
      reason: "Forbidden",
      message:
        'leases.coordination.k8s.io is forbidden: User "reader" cannot list resource "leases" in API group ' +
        '"coordination.k8s.io" in the namespace "facts"',
    });
  });
});
