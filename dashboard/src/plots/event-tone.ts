import type { EventKind } from "../../../src/wires/admin/feed/overview.ts";

/** The colour of an event, as a variable of the style sheet. */
const TONES: Readonly<Record<EventKind, "good" | "warn" | "bad" | "accent" | "ink-soft">> = {
  "process-started": "ink-soft",
  "drain-began": "warn",
  "endpoint-added": "good",
  "endpoint-removed": "warn",
  "endpoint-up": "good",
  "endpoint-blind": "warn",
  "endpoint-down": "bad",
  "config-changed": "accent",
  "config-refused": "bad",
  "file-changed": "accent",
  "file-refused": "bad",
  "gate-closed": "warn",
  "gate-open": "good",
  "replica-joined": "good",
  "replica-gone": "warn",
  "store-away": "bad",
  "store-back": "good",
  "flow-control-on": "accent",
  "flow-control-off": "accent",
  demo: "accent",
};

/** Also for kinds that a newer process sends. */
export function toneOf(kind: EventKind): string {
  return TONES[kind] ?? "ink-soft";
}
