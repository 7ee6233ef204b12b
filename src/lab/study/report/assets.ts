import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { resolve } = createRequire(import.meta.url);
/** With line ends as HTML parsers leave them: the hash is of what the browser sees. */
const read = (path: string | URL): string => readFileSync(path, "utf8").replaceAll("\r\n", "\n");

/** What a page holds beside its text. */
export interface Assets {
  /** In this order: the library, then what draws with it. */
  readonly scripts: readonly string[];
  readonly styles: readonly string[];
  /** Terms of the library, which go where its code goes. */
  readonly licence: string;
}

/** Read afresh at every call: a report is rendered once in a process. @throws Error when the installation lacks a file */
export function readAssets(): Assets {
  return {
    scripts: [read(resolve("uplot/dist/uPlot.iife.min.js")), read(new URL("./page-script.js", import.meta.url))],
    styles: [read(resolve("uplot/dist/uPlot.min.css")), read(new URL("./report.css", import.meta.url))],
    licence: read(resolve("uplot/LICENSE")),
  };
}

const hashes = (texts: readonly string[]): string =>
  texts.map((text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`).join(" ");

/** A Content-Security-Policy under which these scripts and styles run, no others, and nothing is loaded or sent. */
export function contentSecurityPolicy({ scripts, styles }: Assets): string {
  return `default-src 'none'; script-src ${hashes(scripts)}; style-src ${hashes(styles)}; base-uri 'none'; form-action 'none'`;
}
