import type { Kind, KindVersion } from "./kind.ts";
import { apiVersionOf } from "./kind.ts";
import type { ApiObject } from "./object.ts";
import type { Predicate } from "./selector.ts";
import { fieldSelector, labelSelector } from "./selector.ts";

/** Who asks. */
export interface User {
  readonly name: string;
  readonly groups: readonly string[];
}

/** A request as the API server sees it, whether it came over a socket or from the test itself. */
export interface Call {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly contentType: string;
  readonly userAgent: string;
  readonly body: string;
  readonly user: User;
}

/** An answer, or a watch that is to be opened. */
export interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON text, unless `headers` say otherwise. */
  readonly body: string;
}

/** What a path under a group and version stands for. */
export interface Target {
  readonly kind: Kind;
  readonly version: KindVersion;
  /** undefined = all namespaces, or a kind without namespaces */
  readonly namespace: string | undefined;
  /** undefined = all objects */
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

/** A JSON answer. */
export function json(status: number, body: unknown, headers?: Readonly<Record<string, string>>): Answer {
  return { status, body: typeof body === "string" ? body : JSON.stringify(body), ...(headers ? { headers } : {}) };
}

/** Which objects of its kind a list or watch is after. @throws Refusal 400 for a selector that cannot be read */
export function selection({ kind, name }: Target, query: URLSearchParams): Predicate {
  const labels = query.get("labelSelector");
  const fields = query.get("fieldSelector");
  const predicates: Predicate[] = [];
  if (name !== undefined) predicates.push((object) => object.metadata.name === name);
  if (labels !== null && labels !== "") predicates.push(labelSelector(labels));
  if (fields !== null && fields !== "") predicates.push(fieldSelector(fields, kind.fieldLabels));
  return (object) => predicates.every((predicate) => predicate(object));
}

/** An object as a version of its kind shows it: versions differ in nothing but their name. */
export function shown({ kind, version }: Pick<Target, "kind" | "version">, object: ApiObject): ApiObject {
  const apiVersion = apiVersionOf(kind.group, version.name);
  return object.apiVersion === apiVersion ? object : { ...object, apiVersion };
}
