import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ApiAnswer, type ApiObject, startApiServer, type TestApiServer } from "../support/apiserver/index.ts";
import type { Manifest } from "../support/resources/verdicts.cases.ts";
import { ACCEPTED_POOLS, REFUSED_POOLS } from "../support/resources/verdicts-pools.cases.ts";
import { ACCEPTED_STATUSES, FRESH_STATUSES, REFUSED_STATUSES } from "../support/resources/verdicts-status.cases.ts";
import { ACCEPTED_WORKLOADS, REFUSED_WORKLOADS, UPDATES } from "../support/resources/verdicts-workloads.cases.ts";

// The verdict table (api-resources 8.2; R-3) on an API server that has our definitions; src/pool/resources has it on our
// own parser.

const FOLDER = join(import.meta.dirname, "..", "..", "deploy", "crds");

let server: TestApiServer;
beforeAll(async () => {
  server = await startApiServer();
  await server.installCrds(FOLDER);
});
afterAll(() => server?.close());

const collection = ({ apiVersion, kind }: Manifest) => `/apis/${apiVersion}/namespaces/default/${kind.toLowerCase()}s`;

let made = 0;
/** Under a name of its own. */
function named(manifest: Manifest): Manifest {
  made++;
  return { ...manifest, metadata: { name: `verdict-${made}` } };
}
const create = (manifest: Manifest, query = "") => server.request("POST", collection(manifest) + query, manifest);

const titled = <T extends { readonly id: string; readonly object: Manifest }>(rows: readonly T[]) =>
  rows.map((row) => [`${row.id} (${row.object.kind}, ${row.object.apiVersion})`, row] as const);

function objectIn(answer: ApiAnswer, status: number): ApiObject {
  expect([answer.status, answer.status === status ? "" : messageOf(answer)]).toEqual([status, ""]);
  return answer.body as ApiObject;
}
const messageOf = ({ body }: ApiAnswer) => String((body as { readonly message?: unknown }).message);

/** Wording differs between versions of the server in upper and lower case. */
function expectRefusal(answer: ApiAnswer, status: number, pieces: readonly string[]): void {
  expect([answer.status, answer.body]).toMatchObject([
    status,
    { kind: "Status", reason: status === 422 ? "Invalid" : "BadRequest" },
  ]);
  for (const piece of pieces) expect(messageOf(answer).toLowerCase()).toContain(piece.toLowerCase());
}

describe("deploy/crds on an API server (R-3): accepted", () => {
  it.each(titled([...ACCEPTED_POOLS, ...ACCEPTED_WORKLOADS]))("%s", async (_, { object, stored, unknown }) => {
    const manifest = named(object);
    expect(objectIn(await create(manifest), 201)["spec"]).toEqual(stored);
    if (unknown) expectRefusal(await create(named(object), "?fieldValidation=Strict"), 400, unknown.server);
  });
});

describe("deploy/crds on an API server (R-3): refused", () => {
  it.each(titled([...REFUSED_POOLS, ...REFUSED_WORKLOADS]))("%s", async (_, { object, says }) => {
    expectRefusal(await create(named(object)), 422, says.server);
  });
});

describe("deploy/crds on an API server (R-3): changes", () => {
  it.each(UPDATES.map((row) => [row.id, row] as const))("%s", async (_, { before, after, says }) => {
    const { metadata } = objectIn(await create(named(before)), 201);
    const answer = await server.request("PUT", `${collection(after)}/${metadata.name}`, { ...after, metadata });
    if (says) expectRefusal(answer, 422, says.server);
    else expect(objectIn(answer, 200)["spec"]).toMatchObject(after.spec as object);
  });
});

describe("deploy/crds on an API server (R-3): status (P25, S, I)", () => {
  const writeStatus = async (object: Manifest, status: unknown): Promise<ApiAnswer> => {
    const fresh = objectIn(await create(named(object)), 201);
    return server.request("PUT", `${collection(object)}/${fresh.metadata.name}/status`, { ...fresh, status });
  };

  it.each(titled(REFUSED_STATUSES))("%s is refused", async (_, { object, status, says }) => {
    expectRefusal(await writeStatus(object, status), 422, says);
  });

  it.each(titled(ACCEPTED_STATUSES))("%s is accepted", async (_, { object, status, stored }) => {
    expect(objectIn(await writeStatus(object, status), 200)["status"]).toEqual(stored);
  });

  it.each(titled(FRESH_STATUSES))("a fresh object has %s", async (_, { object, status, stored }) => {
    const manifest = { ...named(object), status };
    expect(objectIn(await create(manifest), 201)["status"]).toEqual(stored);
  });
});

describe("deploy/crds on an API server (R-1)", () => {
  it("has short names, columns for kubectl and the subresource", async () => {
    const pools = await server.request("GET", "/apis/inference.networking.k8s.io/v1");
    const names = (pools.body as { readonly resources: readonly { readonly name: string }[] }).resources;
    expect(names).toContainEqual(expect.objectContaining({ name: "inferencepools", shortNames: ["infpool"] }));
    expect(names).toContainEqual(expect.objectContaining({ name: "inferencepools/status" }));
  });
});
