import type { Position } from "../inference/errors.ts";

/** Keys and indices from the top of a document down to one of its values. */
export type Path = readonly (string | number)[];

/** A file that was read: its text, its plain value, and the position of each part in the file. */
export interface Document {
  /** Name for messages: a path, or the flag the text came from. */
  readonly file: string;
  /** The whole text as it was read; "" for a document that was made from something else. */
  readonly text: string;
  /** Objects, arrays, strings, numbers, booleans and null only; null when the document is empty. */
  readonly value: unknown;
  /**
   * The place where the part at `path` begins: its key in a mapping, the item itself in a list. For a part that does not exist,
   * the place of its nearest existing ancestor, at last the start of the document.
   */
  positionOf(path: Path): Position;
}

/** `file:line:column`, as editors and terminals understand it. */
export function formatPosition(position: Position): string {
  return `${position.file}:${position.line}:${position.column}`;
}

/**
 * The path as text: `profiles[0].plugins[1].weight`. A key that a reader could misread is quoted: `labels["a.b"]`. The top is
 * "".
 */
export function formatPath(path: Path): string {
  let out = "";
  for (const step of path) {
    if (typeof step === "number") out += `[${step}]`;
    else if (!/^[\w$-]+$/.test(step)) out += `[${JSON.stringify(step)}]`;
    else out += out === "" ? step : `.${step}`;
  }
  return out;
}

/**
 * A part of a document as a document of its own, with the text and the places of the whole.
 * @param at the way to the part; the value of a part that does not exist is null
 */
export function partOf(document: Document, at: Path): Document {
  let value = document.value;
  for (const step of at) value = (value as Readonly<Record<string | number, unknown>> | null | undefined)?.[step];
  return { ...document, value: value ?? null, positionOf: (path) => document.positionOf([...at, ...path]) };
}
