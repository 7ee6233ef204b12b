import { randomUUID } from "node:crypto";
import type { Call, Target } from "./call.ts";
import { apiVersionOf } from "./kind.ts";
import { type ApiObject, copyOf, isObject, type Json, type Metadata } from "./object.ts";
import { Refusal } from "./refusal.ts";

/** The object in the body of a request. @throws Refusal 400 where it is none, or not of this kind */
export function bodyOf({ kind, version, namespace }: Target, call: Call, body: unknown): ApiObject {
  const apiVersion = apiVersionOf(kind.group, version.name);
  if (!isObject(body)) throw new Refusal(400, "the body of the request holds no JSON object");
  if (kind.custom && body["kind"] === undefined) throw new Refusal(400, `Object 'Kind' is missing in '${call.body}'`);
  const metadata: Metadata = { name: "", ...(isObject(body["metadata"]) ? body["metadata"] : {}) };
  const object: ApiObject = { ...body, apiVersion, kind: kind.kind, metadata };
  const { apiVersion: said = apiVersion, kind: called = kind.kind } = body;
  if (said !== apiVersion) {
    const why = `the API version in the data (${said}) does not match the expected API version (${apiVersion})`;
    throw new Refusal(400, why);
  }
  if (called !== kind.kind) {
    throw new Refusal(400, `${called} in version "${version.name}" cannot be handled as a ${kind.kind}`);
  }
  if (namespace !== undefined && metadata.namespace && metadata.namespace !== namespace) {
    throw new Refusal(400, "the namespace of the provided object does not match the namespace sent on the request");
  }
  if (namespace === undefined) delete metadata.namespace;
  else metadata.namespace = namespace;
  return object;
}

/** An object as it begins: without status, and with what the server itself writes. */
export function fresh({ kind, version }: Target, given: ApiObject, time: string): ApiObject {
  const body = copyOf(given);
  const { metadata } = body;
  if (version.status) delete body["status"];
  for (const field of ["deletionTimestamp", "deletionGracePeriodSeconds", "generation"]) delete metadata[field];
  metadata.uid = randomUUID();
  metadata.creationTimestamp = time;
  if (kind.custom || kind.generation) metadata.generation = 1;
  if (kind.kind === "Pod") body["status"] = { phase: "Pending", qosClass: "BestEffort" };
  if (kind.kind === "Namespace") {
    body["spec"] = { finalizers: ["kubernetes"] };
    body["status"] = { phase: "Active" };
    metadata.labels = { ...metadata.labels, "kubernetes.io/metadata.name": metadata.name };
  }
  return body;
}

const SERVER_OWNED = [
  ...["name", "namespace", "uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds"],
  ...["generateName", "managedFields", "resourceVersion"],
];

/** What a write of the object itself makes of it: its status and what the server owns stay. */
export function merged({ version }: Target, old: ApiObject, body: ApiObject): ApiObject {
  const metadata: Metadata = { ...body.metadata };
  for (const field of SERVER_OWNED) metadata[field] = old.metadata[field];
  return { ...body, metadata, ...(version.status ? { status: old["status"] } : {}) };
}

/** The JSON in the body of a request. @throws Refusal 400 */
export function parse(call: Call): unknown {
  try {
    return JSON.parse(call.body);
  } catch (error) {
    throw new Refusal(400, `the body of the request is not JSON: ${String(error)}`);
  }
}

/** What `generation` counts changes of. */
export function specOf(object: ApiObject, status: boolean): Json {
  const { metadata: _, ...rest } = object;
  const spec: Json = rest;
  if (status) delete spec["status"];
  return spec;
}
