import { parseDocument } from "../../../src/base/document/parse.ts";
import type { EffectiveConfig } from "../../../src/picker/config/effective.ts";
import { loadConfig } from "../../../src/picker/config/load.ts";
import { PLUGIN_REGISTRY } from "../../../src/picker/core/plugins/plugins.ts";

/** A configuration of the real plugins, from the text of the file `c`. */
export function load(text: string): EffectiveConfig {
  return loadConfig(parseDocument(text, { file: "c" }), PLUGIN_REGISTRY);
}
