/** Parameters nested deeper count as different. */
const MAX_DEPTH = 64;

/**
 * Whether two sets of parameters say the same, so that a plugin made of one would do what one made of the other does.
 * Schemas may make anything of a file: plain data, dates, regular expressions, maps and sets are compared by what they
 * hold, everything else, such as functions, by identity. What cannot be compared counts as different: a plugin then is
 * made anew, and has lost nothing but what it had learnt.
 */
export function sameParameters(a: unknown, b: unknown, depth = 0): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || depth > MAX_DEPTH) return false;
  const kind = Object.getPrototypeOf(a);
  if (kind !== Object.getPrototypeOf(b)) return false;
  if (a instanceof RegExp) return String(a) === String(b);
  if (a instanceof Date) return Object.is(a.getTime(), (b as Date).getTime());
  if (a instanceof Map || a instanceof Set) return sameParameters([...a], [...(b as typeof a)], depth + 1);
  if (kind !== Object.prototype && kind !== Array.prototype && kind !== null) return false;
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length || (a as unknown[]).length !== (b as unknown[]).length) return false;
  return keys.every(
    (key) =>
      Object.hasOwn(b, key) &&
      sameParameters((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key], depth + 1),
  );
}
