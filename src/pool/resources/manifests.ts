import { type Document, formatPath, formatPosition, type Path } from "../../base/document/document.ts";
import { parseDocuments } from "../../base/document/parse.ts";
import { invalidParts, type Violation } from "../../base/document/validate.ts";
import type { ResourceObject } from "./objects.ts";
import { isList, itemOf, type ReadOptions, readResource } from "./read.ts";

/** What a file of manifests says. */
export interface Manifests {
  /** In the order of the file. */
  readonly objects: readonly ResourceObject[];
  /** One sentence for each thing that is allowed and hardly meant, beginning with `file:line:column: `. */
  readonly warnings: readonly string[];
}

/**
 * The objects of our kinds in a file of Kubernetes manifests: YAML with any number of documents, or JSON; lists are
 * looked into; objects of other kinds are left out.
 * @param file name for messages
 * @throws SluiceError DOCUMENT_SYNTAX, DOCUMENT_INVALID: the message lists every violation of the file as
 * `file:line:column: path: problem`
 */
export function readResources(text: string, file: string, options: ReadOptions = {}): Manifests {
  const objects: ResourceObject[] = [];
  const warnings: string[] = [];
  const wrong: { document: Document; violations: readonly Violation[] }[] = [];
  for (const document of parseDocuments(text, { file })) {
    if (document.value === null) continue;
    const violations: Violation[] = [];
    const read = (value: unknown, at: Path): void => {
      if (isList(value)) {
        const { items } = value;
        if (!Array.isArray(items))
          violations.push({ path: [...at, "items"], problem: "a list of objects needs `items: [...]`" });
        else for (const [i, item] of items.entries()) read(itemOf(value, item), [...at, "items", i]);
        return;
      }
      const reading = readResource(value, options);
      if (reading.outcome === "usable") objects.push(reading.object);
      if (reading.outcome === "invalid") violations.push(...reading.violations.map((found) => below(at, found)));
      if (reading.outcome === "usable" || reading.outcome === "empty")
        for (const found of reading.warnings) warnings.push(sentence(document, below(at, found)));
    };
    read(document.value, []);
    if (violations.length > 0) wrong.push({ document, violations });
  }
  if (wrong.length > 0) throw invalidParts(wrong, "manifest");
  return { objects, warnings };
}

function below(at: Path, { path, problem }: Violation): Violation {
  return { path: [...at, ...path], problem };
}

function sentence(document: Document, { path, problem }: Violation): string {
  const where = formatPosition(document.positionOf(path));
  return path.length === 0 ? `${where}: ${problem}` : `${where}: ${formatPath(path)}: ${problem}`;
}
