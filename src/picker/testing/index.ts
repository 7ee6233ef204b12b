/** The module that plugin authors import as `sluice/plugin/testing`. */
export { expectPick, filterWith, type PickScene, scoreWith } from "./expect-pick.ts";
export type { Pick } from "./pick.ts";
export type { PluginSettings, PluginUse } from "./plugin-uses.ts";
export { type EndpointSketch, endpointOf, type RequestSketch, requestOf } from "./sketches.ts";
