import type { Position } from "../inference/errors.ts";

/** Keys and indices from the top of a document down to one of its values. */
export type Path = readonly (string | number)[];

/** A file that was read: its plain value, and where in the file each part of it stands. */
export interface Document {
  /** Name for messages: a path, or the flag the text came from. */
  readonly file: string;
  /** Objects, arrays, strings, numbers, booleans and null only; null when the document is empty. */
  readonly value: unknown;
  /**
   * Where the part at `path` begins: its key in a mapping, the item itself in a list. A part that doesn't exist is
   * looked for at its nearest existing ancestor, at last at the start of the document.
   */
  positionOf(path: Path): Position;
}

/** `file:line:column`, as editors and terminals understand it. */
export function formatPosition(position: Position): string {
  return `${position.file}:${position.line}:${position.column}`;
}

/** `profiles[0].plugins[1].weight`; keys that would be misread are quoted: `labels["a.b"]`. The top is "". */
export function formatPath(path: Path): string {
  let out = "";
  for (const step of path) {
    if (typeof step === "number") out += `[${step}]`;
    else if (!/^[\w$-]+$/.test(step)) out += `[${JSON.stringify(step)}]`;
    else out += out === "" ? step : `.${step}`;
  }
  return out;
}
