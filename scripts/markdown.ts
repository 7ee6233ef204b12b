/** The text with empty lines in place of fenced blocks and HTML comments, so that line numbers stay. */
export function withoutBlocks(text: string): string {
  const blank = (part: string): string => part.replace(/[^\n]/g, "");
  let fence: string | undefined;
  const lines = text.split("\n").map((line) => {
    const mark = /^\s*(?:[*+-]\s+|\d+\.\s+)?(```+|~~~+)/.exec(line)?.[1];
    if (fence === undefined && mark !== undefined) fence = mark;
    else if (fence === undefined) return line;
    else if (mark !== undefined && line.trim().startsWith(fence)) fence = undefined;
    return "";
  });
  return lines.join("\n").replace(/<!--[\s\S]*?-->/g, blank);
}

/** The text with `put` in place of each span of inline code; a span may go over a line end. */
export function withoutSpans(text: string, put: string): string {
  return text.replace(/(?<!`)(`+)(?!`)((?:(?!\n\s*\n)[\s\S])*?[^`])\1(?!`)/g, (span) =>
    put === "" ? span.replace(/[^\n]/g, "") : put,
  );
}

/** The anchor of a heading, as GitHub makes it. @param taken the anchors of the headings before it */
export function slugOf(title: string, taken: ReadonlySet<string>): string {
  const words = title.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
  const slug = words.replace(/[^\p{L}\p{N}\p{M}_\- ]/gu, "").replace(/ /g, "-");
  let name = slug;
  for (let i = 1; taken.has(name); i++) name = `${slug}-${i}`;
  return name;
}
