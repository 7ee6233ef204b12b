/** An object as the API server keeps it; never changed once it is stored. */
export interface ApiObject {
  apiVersion?: string;
  kind?: string;
  metadata: Metadata;
  [field: string]: unknown;
}

export interface Metadata {
  name: string;
  generateName?: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  managedFields?: ManagedFields[];
  [field: string]: unknown;
}

/** Who owns which fields, in the form of the API. */
export interface ManagedFields {
  manager: string;
  operation: "Apply" | "Update";
  apiVersion: string;
  time: string;
  fieldsType: "FieldsV1";
  fieldsV1: Record<string, unknown>;
  subresource?: string;
}

export type Json = Record<string, unknown>;

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What JSON makes of it: a deep copy without undefined fields. */
export function copyOf<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/** Whether two JSON values are the same, whatever the order of their fields. */
export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((item, at) => same(item, b[at]));
  if (!isObject(a) || !isObject(b)) return false;
  const names = Object.keys(a).filter((name) => a[name] !== undefined);
  if (names.length !== Object.keys(b).filter((name) => b[name] !== undefined).length) return false;
  return names.every((name) => same(a[name], b[name]));
}

const TEXTS = new WeakMap<object, string>();

/** Its JSON text, made once per stored object. */
export function textOf(object: object): string {
  let text = TEXTS.get(object);
  if (text === undefined) {
    text = JSON.stringify(object);
    TEXTS.set(object, text);
  }
  return text;
}

/** Where an object is kept within its kind. */
export function keyOf(namespace: string | undefined, name: string): string {
  return `${namespace ?? ""}/${name}`;
}
