/** The beginning of every key of a gateway, by which people and scanners of repositories recognise one. */
export const KEY_PREFIX = "sk-sluice-";

const KEYS = new RegExp(`${KEY_PREFIX}[\\w-]*`, "g");

/** The text with `sk-sluice-***` in place of each key: people put keys where no key belongs, and logs must not keep them. */
export function withoutKeys(text: string): string {
  // Nearly every text.
  if (!text.includes(KEY_PREFIX)) return text;
  return text.replace(KEYS, `${KEY_PREFIX}***`);
}
