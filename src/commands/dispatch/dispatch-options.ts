/** What the front door needs of the dispatcher's configuration: `cli/` sees no other room than this one. */
export {
  type ConfigDocument,
  parseConfigDocument,
  readConfigDocument,
} from "../../async/dispatch/config/config-document.ts";
export { type DispatchFile, readDispatchFile, type SectionName } from "../../async/dispatch/config/dispatch-file.ts";
export { isHttpUrl } from "../../async/dispatch/config/fields.ts";
export type { DispatchOptions } from "../../async/dispatch/config/options.ts";
export { loadDispatchOptions } from "../../async/dispatch/config/options.ts";
export { TRANSPORTS, type TransportName } from "../../async/dispatch/config/transport-fields.ts";
export { redacted } from "../../async/gates/factory.ts";
