import { ExpositionReader } from "../../../base/telemetry/exposition-reader.ts";
import type { Dialect, PageReader } from "./dialect.ts";
import type { EngineMapping } from "./engines.ts";
import { MappedPages, type ReadMapping } from "./mapped-pages.ts";
import { parseSpecification } from "./specification.ts";

/** The metrics pages of one kind of model server, read as its mapping says (scheduling 1.3-1.7). */
export class MappedDialect implements Dialect {
  readonly name: string;
  readonly #mapping: ReadMapping;
  readonly #names: readonly string[];
  /** Its tables are large and it holds nothing from page to page: one serves all endpoints. */
  readonly #reader: ExpositionReader;

  /** @throws SluiceError METRIC_SPECIFICATION */
  constructor(mapping: EngineMapping) {
    this.name = mapping.name;
    const read = {
      queued: parseSpecification(mapping.queued ?? ""),
      running: parseSpecification(mapping.running ?? ""),
      kvUsage: parseSpecification(mapping.kvUsage ?? ""),
      kvUsageBefore: parseSpecification(mapping.kvUsageBefore ?? ""),
      lora: parseSpecification(mapping.lora ?? ""),
      cacheInfo: parseSpecification(mapping.cacheInfo ?? ""),
      blockSize: parseSpecification(mapping.blockSize ?? ""),
      blocks: parseSpecification(mapping.blocks ?? ""),
    };
    const { blockSizeLabel = "", blocksLabel = "" } = mapping;
    this.#mapping = { ...read, blockSizeLabel, blocksLabel };
    this.#names = [...new Set(Object.values(read).flatMap((specification) => specification?.name ?? []))];
    this.#reader = new ExpositionReader(this.#names);
  }

  createReader(): PageReader {
    return new MappedPages(this.#mapping, this.#names, this.#reader);
  }
}
