/**
 * The documentation for users as HTML pages: the links of the page to it work from an installed package, without a network, and show
 * the text of the same release.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path";
import { slugOf } from "../scripts/markdown.ts";

const root = join(import.meta.dirname, "..");
/** The folders below docs/ whose pages are built. The others are for contributors. */
const FOLDERS = {
  operate: "Operate",
  use: "Use",
  reference: "Reference",
  extend: "Extend",
} as const;

/** The pages, as paths below the root. */
export function docsSources(): string[] {
  return Object.keys(FOLDERS).flatMap((folder) =>
    readdirSync(join(root, "docs", folder))
      .filter((name) => name.endsWith(".md"))
      .sort()
      .map((name) => `docs/${folder}/${name}`),
  );
}

/** Writes `docs/FOLDER/NAME.html` for each page, and `docs/index.html`, which lists them. @param outDir with the built page */
export async function buildDocs(outDir: string): Promise<void> {
  const { Marked } = await import("marked");
  const pages = new Set(docsSources());
  const titles = new Map<string, string>();
  for (const page of pages) {
    const text = readFileSync(join(root, page), "utf8");
    const slugs = new Set<string>();
    const marked = new Marked({
      renderer: {
        heading({ tokens, depth, text: title }) {
          const slug = slugOf(title, slugs);
          slugs.add(slug);
          return `<h${depth} id="${slug}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
        },
        link({ href, tokens }) {
          const inner = this.parser.parseInline(tokens);
          const target = targetOf(page, href, pages);
          return target === undefined ? inner : `<a href="${target}">${inner}</a>`;
        },
        // Pictures would double the package.
        image: () => "",
        table(token) {
          const cell = (tag: "th" | "td", tokens: (typeof token.header)[number]["tokens"]): string =>
            `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`;
          const head = token.header.map(({ tokens }) => cell("th", tokens)).join("");
          const rows = token.rows.map((row) => `<tr>${row.map(({ tokens }) => cell("td", tokens)).join("")}</tr>\n`);
          return `<div class="scroll" tabindex="0"><table><thead><tr>${head}</tr></thead>\n<tbody>${rows.join("")}</tbody></table></div>\n`;
        },
      },
    });
    const title = /^# (.+)$/m.exec(text)?.[1]?.replaceAll("`", "") ?? basename(page, ".md");
    titles.set(page, title);
    // Comments tell the checks of this repository how to run the examples.
    const body = await marked.parse(text.replace(/<!--[\s\S]*?-->/g, ""));
    write(join(outDir, page.replace(/\.md$/, ".html")), html(title, body, "../"));
  }
  const lists = Object.entries(FOLDERS).map(([folder, name]) => {
    const items = [...titles].filter(([page]) => dirname(page) === `docs/${folder}`);
    const links = items.map(
      ([page, title]) => `<li><a href="${folder}/${basename(page, ".md")}.html">${escaped(title)}</a></li>`,
    );
    return `<h2>${name}</h2>\n<ul>${links.join("\n")}</ul>`;
  });
  write(join(outDir, "docs", "index.html"), html("Documentation", `<h1>Documentation</h1>\n${lists.join("\n")}`, ""));
}

/** The address of a link as the built page has it; undefined for a file that is not built, such as a source. */
function targetOf(page: string, href: string, pages: ReadonlySet<string>): string | undefined {
  if (/^https?:/.test(href) || href.startsWith("#")) return escaped(href);
  const [path = "", anchor] = href.split("#");
  const place = normalize(join(dirname(page), path));
  if (!pages.has(place)) return undefined;
  return escaped(`${path.replace(/\.md$/, ".html")}${anchor === undefined ? "" : `#${anchor}`}`);
}

const escaped = (text: string): string => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

function html(title: string, body: string, up: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escaped(title)} · Sluice</title>
<link rel="icon" href="${up}../icon.svg">
<link rel="stylesheet" href="${up}docs.css">
<header><a href="${up}../">The page of this process</a> <a href="${up}index.html">Documentation</a></header>
<main>
${body}</main>
</html>
`;
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}
