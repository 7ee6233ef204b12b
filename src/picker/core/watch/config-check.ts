import { parseDocument } from "../../../base/document/parse.ts";
import { SluiceError } from "../../../base/inference/errors.ts";
import type { EffectiveConfig } from "../../config/effective.ts";
import { loadConfig } from "../../config/load.ts";
import type { InferenceCore } from "../inference-core.ts";
import { type ConfigView, parametersOf } from "./config-view.ts";

/** A note about a place in a text; lines and columns from 1 up. */
export interface TextNote {
  readonly line: number;
  readonly column: number;
  readonly text: string;
}

/** What a text says as an `EndpointPickerConfig`. */
export interface CheckedConfig {
  /** Null when there are problems. */
  readonly picker: Pick<ConfigView, "plugins" | "profiles"> | null;
  /** In the order of the text, at most 50. */
  readonly problems: readonly TextNote[];
  readonly warnings: readonly TextNote[];
}

/** Stands for the file in the messages, and is cut off again. */
const FILE = "edited";
const NOTE = new RegExp(`\\b${FILE}:(\\d+):(\\d+): (.*)$`);

/**
 * Reads a text as the process would read its configuration at a reload, with the same plugin types. Creates no plugin, loads no
 * module and changes nothing.
 */
export function checkConfig(core: InferenceCore, text: string): CheckedConfig {
  const { registry, parity } = core.configured.config;
  try {
    const config = loadConfig(parseDocument(text, { file: FILE }), registry, { parity });
    return { picker: partsOf(config), problems: [], warnings: config.warnings.flatMap(notesIn) };
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    return { picker: null, problems: notesIn(error.message), warnings: [] };
  }
}

/** The notes of a message; one that names no place is about the first line. */
function notesIn(message: string): TextNote[] {
  const found = message.split("\n").flatMap((line) => {
    const parts = NOTE.exec(line);
    return parts === null ? [] : [{ line: Number(parts[1]), column: Number(parts[2]), text: parts[3]! }];
  });
  return found.length > 0 ? found : [{ line: 1, column: 1, text: message }];
}

/** The plugins that a replay may need, and the profiles, as `ConfigView` has them. */
function partsOf({ configured, profiles, handler, producers }: EffectiveConfig): CheckedConfig["picker"] {
  const members = profiles.flatMap(({ plugins }) => plugins);
  const all = new Map([...configured, ...members, handler, ...producers].map((plugin) => [plugin.name, plugin]));
  return {
    plugins: [...all.values()].map(({ name, definition, parameters }) => ({
      ...{ name, type: definition.type, parameters: parametersOf(parameters) },
    })),
    profiles: profiles.map(({ name, plugins }) => {
      const ofKind = (kind: string) => plugins.filter(({ definition }) => definition.kind === kind);
      return {
        name,
        filters: ofKind("filter").map((filter) => filter.name),
        scorers: ofKind("scorer").map((scorer) => ({ name: scorer.name, weight: scorer.weight })),
        picker: ofKind("picker")[0]!.name,
      };
    }),
  };
}
