/** Figures and lists as people read them. */

/** `12,345.6`. @param digits behind the point */
export function grouped(value: number, digits = 0): string {
  const [whole, rest] = value.toFixed(digits).split(".");
  const apart = whole!.replace(/\B(?=(\d{3})+$)/g, ",");
  return rest === undefined ? apart : `${apart}.${rest}`;
}

/** `1 run`, `1,200 runs`. */
export function counted(count: number, one: string, several = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : several}`;
}

/** `a`, `a and b`, `a, b and c`; empty for none. */
export function listed(parts: readonly string[]): string {
  return parts.length < 2 ? parts.join() : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

/** A phrase as a sentence: with a capital letter and a full stop. */
export function sentence(phrase: string): string {
  return `${phrase.charAt(0).toUpperCase()}${phrase.slice(1)}.`;
}
