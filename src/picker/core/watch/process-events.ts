/** What a process reports as an event on the time axis of its page. */
export type ProcessEventKind =
  | "process-started"
  | "drain-began"
  | "endpoint-added"
  | "endpoint-removed"
  | "endpoint-up"
  | "endpoint-blind"
  | "endpoint-down"
  | "config-changed"
  | "config-refused"
  | "file-changed"
  | "file-refused"
  | "gate-closed"
  | "gate-open"
  | "flow-control-on"
  | "flow-control-off"
  | "demo";
