import { type Answer, json, selection, shown, type Target } from "./call.ts";
import { apiVersionOf, resourceOf } from "./kind.ts";
import { type ApiObject, keyOf, textOf } from "./object.ts";
import { expired, invalid, Refusal } from "./refusal.ts";
import type { Storage } from "./storage.ts";

/** Where the next page begins. */
interface Continue {
  readonly rv: number;
  /** Key of the last object of the page before. */
  readonly start: string;
}

/** Answers a list, in pages where the query has a `limit`. @throws Refusal 400, 410, 422, 504 */
export function list(storage: Storage, target: Target, query: URLSearchParams): Answer {
  const { kind, version, namespace } = target;
  const token = query.get("continue") ?? "";
  const from = token === "" ? undefined : continued(token);
  const revision = from?.rv ?? wantedRevision(storage, query);
  const all = storage.at(resourceOf(kind), namespace, revision);
  if (all === undefined) {
    if (from === undefined) throw expired(`The resourceVersion for the provided list is too old.`);
    throw expired(
      "The provided continue parameter is too old to display a consistent list result. You can start a new list " +
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of " +
        "the results.",
    );
  }
  const selected = selection(target, query);
  const rest = all.filter((object) => selected(object) && (from === undefined || keyIn(object) > from.start));
  const limit = Number(query.get("limit") ?? 0);
  const page = limit > 0 ? rest.slice(0, limit) : rest;
  const left = rest.length - page.length;
  const metadata: Record<string, unknown> = { resourceVersion: String(revision) };
  if (left > 0) {
    const next: Continue = { rv: revision, start: keyIn(page.at(-1)!) };
    metadata["continue"] = Buffer.from(JSON.stringify({ v: "meta.k8s.io/v1", ...next })).toString("base64url");
    // Counting what a selector lets through would mean reading it all: the API leaves the number out.
    if (!query.get("labelSelector") && !query.get("fieldSelector")) metadata["remainingItemCount"] = left;
  }
  const head = { kind: `${kind.kind}List`, apiVersion: apiVersionOf(kind.group, version.name), metadata };
  const items = page.map((object) => textOf(kind.custom ? shown(target, object) : withoutKind(object)));
  return json(200, `${JSON.stringify(head).slice(0, -1)},"items":[${items.join(",")}]}`);
}

/** The objects of a list of a built-in kind do not name it: the list does. */
function withoutKind(object: ApiObject): ApiObject {
  let bare = BARE.get(object);
  if (bare === undefined) {
    const { apiVersion: _, kind: __, ...rest } = object;
    bare = rest as ApiObject;
    BARE.set(object, bare);
  }
  return bare;
}

const BARE = new WeakMap<ApiObject, ApiObject>();

function keyIn(object: ApiObject): string {
  return keyOf(object.metadata.namespace, object.metadata.name);
}

function continued(token: string): Continue {
  try {
    const { rv, start } = JSON.parse(Buffer.from(token, "base64url").toString()) as Continue;
    if (typeof rv === "number" && typeof start === "string") return { rv, start };
  } catch {
    // Told below.
  }
  throw new Refusal(400, "continue key is not valid: it was not given by this server");
}

/** The revision that `resourceVersion` and `resourceVersionMatch` ask for. */
function wantedRevision(storage: Storage, query: URLSearchParams): number {
  const text = query.get("resourceVersion") ?? "";
  const wanted = readRevision(text);
  if (wanted > storage.revision) throw tooLarge(wanted, storage.revision);
  return query.get("resourceVersionMatch") === "Exact" && wanted > 0 ? wanted : storage.revision;
}

/** @throws Refusal 422 where it is no number */
export function readRevision(text: string): number {
  if (/^\d*$/.test(text)) return Number(text);
  const named = { group: "meta.k8s.io", plural: "listoptions", kind: "ListOptions" };
  const message = `Invalid value: "${text}": strconv.ParseUint: parsing "${text}": invalid syntax`;
  throw invalid(named, "", [{ reason: "FieldValueInvalid", field: "resourceVersion", message }]);
}

function tooLarge(wanted: number, current: number): Refusal {
  return new Refusal(504, `Timeout: Too large resource version: ${wanted}, current: ${current}`, {
    details: {
      causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
      retryAfterSeconds: 1,
    },
  });
}
