import { formatPath } from "../../base/document/document.ts";
import type { ResourceObject } from "./objects.ts";
import { readResource } from "./read.ts";

/** What an object that an API server holds means here. */
export interface ServedObject {
  /** Undefined: it means nothing here, or it is broken. */
  readonly object: ResourceObject | undefined;
  /** It is one of ours and cannot be read, as opposed to one that has nothing to say. */
  readonly broken: boolean;
  /** What is wrong with it, or hardly meant, one line each; each begins with the kind and the name of the object. */
  readonly problems: readonly string[];
}

/**
 * Reads an object of one of our kinds as an API server gives it out: unknown fields are those of a newer release and are left
 * alone, and what only a definition of another release admits still means something.
 * @param value with `apiVersion` and `kind`
 */
export function readServed(value: Readonly<Record<string, unknown>>): ServedObject {
  const reading = readResource(value, { unknownKeys: "stored" });
  const found = "violations" in reading ? reading.violations : "warnings" in reading ? reading.warnings : [];
  const { namespace = "", name = "" } = (value["metadata"] ?? {}) as { namespace?: string; name?: string };
  const problems = found.map(({ path, problem }) => {
    const at = path.length === 0 ? "" : `${formatPath(path)}: `;
    return `${String(value["kind"])} ${namespace}/${name}: ${at}${problem}`;
  });
  const object = reading.outcome === "usable" ? reading.object : undefined;
  return { object, broken: reading.outcome === "invalid", problems };
}
