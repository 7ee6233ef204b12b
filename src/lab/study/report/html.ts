/** Text that is HTML already; everything else that goes into a page is escaped. */
export interface Html {
  readonly html: string;
}

type Part = string | number | Html | readonly Html[];

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character]!);

function rendered(part: Part): string {
  if (typeof part === "string") return escaped(part);
  if (typeof part === "number") return String(part);
  return "html" in part ? part.html : part.map(({ html }) => html).join("");
}

/** HTML from a template. Inserted parts are escaped, for text and quoted attributes alike, unless they are HTML. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return { html: strings.reduce((text, string, i) => text + rendered(parts[i - 1]!) + string) };
}

/** Marks text as HTML: only for text of this program or its libraries, never for text from outside. */
export function trusted(text: string): Html {
  return { html: text };
}

/**
 * JSON for the inside of a script element. `<` is escaped, so no string in it ends the element or starts a comment. Numbers
 * without a form in JSON become null.
 */
export function scriptData(value: unknown): Html {
  return trusted(JSON.stringify(value).replaceAll("<", "\\u003c"));
}
