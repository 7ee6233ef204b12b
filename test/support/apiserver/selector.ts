import { type ApiObject, isObject } from "./object.ts";
import { Refusal } from "./refusal.ts";

export type Predicate = (object: ApiObject) => boolean;

/**
 * A label selector: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, joined by commas.
 * @throws Refusal 400
 */
export function labelSelector(text: string): Predicate {
  const requirements: ((labels: Readonly<Record<string, string>>) => boolean)[] = [];
  for (const part of splitTop(text)) {
    const set = /^(\S+)\s+(in|notin)\s*\(([^()]*)\)$/.exec(part);
    const equal = /^([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)$/.exec(part);
    const exists = /^(!?)\s*([^\s=!()]+)$/.exec(part);
    if (set !== null) {
      const values = set[3]!.split(",").map((value) => value.trim());
      const wanted = set[2] === "in";
      requirements.push((labels) => (labels[set[1]!] !== undefined && values.includes(labels[set[1]!]!)) === wanted);
    } else if (equal !== null) {
      requirements.push((labels) => (labels[equal[1]!] === equal[3]) === (equal[2] !== "!="));
    } else if (exists !== null) {
      requirements.push((labels) => Object.hasOwn(labels, exists[2]!) === (exists[1] === ""));
    } else {
      throw new Refusal(400, `unable to parse requirement: found '${part}'`);
    }
  }
  return (object) => requirements.every((requirement) => requirement(object.metadata.labels ?? {}));
}

/**
 * A field selector: `a=b`, `a==b`, `a!=b`, joined by commas.
 * @param labels fields that may be named besides `metadata.name` and `metadata.namespace`
 * @throws Refusal 400
 */
export function fieldSelector(text: string, labels: readonly string[]): Predicate {
  const requirements = splitTop(text).map((part) => {
    const match = /^([^=!]+?)(==|=|!=)(.*)$/.exec(part);
    if (match === null) throw new Refusal(400, `invalid selector: '${text}'; can't understand '${part}'`);
    const [, field, operator, value] = match;
    if (!["metadata.name", "metadata.namespace", ...labels].includes(field!)) {
      throw new Refusal(400, `field label not supported: ${field}`);
    }
    const path = field!.split(".");
    return (object: ApiObject) => {
      let found: unknown = object;
      for (const name of path) found = isObject(found) ? found[name] : undefined;
      return (String(found ?? "") === value) === (operator !== "!=");
    };
  });
  return (object) => requirements.every((requirement) => requirement(object));
}

function splitTop(text: string): string[] {
  const parts = text.split(/,(?![^(]*\))/).map((part) => part.trim());
  return parts.filter((part) => part !== "");
}
