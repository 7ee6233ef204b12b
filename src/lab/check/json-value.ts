/** The JSON a body holds, or undefined when it holds none; `null` is JSON. */
export function parseJson(body: Uint8Array | string): unknown {
  try {
    return JSON.parse(
      typeof body === "string" ? body : Buffer.from(body.buffer, body.byteOffset, body.length).toString(),
    );
  } catch {
    return undefined;
  }
}

/** What stands at a path of member names and indices; undefined where there is nothing. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let here = value;
  for (const step of path) {
    if (typeof here !== "object" || here === null || !Object.hasOwn(here, step)) return undefined;
    here = (here as Record<string | number, unknown>)[step];
  }
  return here;
}

/** A whole number from 0 up. */
export function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
