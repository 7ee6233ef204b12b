import { parseSync, Visitor } from "vite";

/** A string with fewer plain words is a name, a key or a part of a query. */
const LEAST_WORDS = 3;
const WORD = /^["'(]?[a-z]+[,.;:!?)"']*$/i;

/**
 * The texts of a source file that a person can read: messages of errors and logs, help, labels of pages. A text is a line of a
 * string or of a template with at least three plain words; `Code` is in the place of a value.
 */
export function messagesIn(file: string, source: string): string[] {
  const found: string[] = [];
  const add = (text: string): void => {
    for (const line of text.split("\n"))
      if (line.split(/\s+/).filter((word) => WORD.test(word)).length >= LEAST_WORDS) found.push(line.trim());
  };
  new Visitor({
    Literal({ value }) {
      if (typeof value === "string") add(value);
    },
    TemplateLiteral({ quasis }) {
      add(quasis.map(({ value }) => value.cooked ?? value.raw).join("Code"));
    },
  }).visit(parseSync(file, source).program);
  return found;
}
