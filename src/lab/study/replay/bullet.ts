import { wrapped } from "../words.ts";

/** A sentence of a list, in lines. */
export function bullet(text: string, width: number): string[] {
  return wrapped(text, width - 2).map((line, at) => `${at === 0 ? "* " : "  "}${line}`);
}
