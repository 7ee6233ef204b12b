import type { FeedKind } from "./feed.ts";

/** The answer of `/debug/feed/config`. */
export interface ConfigFeed {
  readonly kind: FeedKind;
  readonly version: string;
  readonly node: string;
  readonly startedAt: number;
  readonly pid: number;
  /** The command line, without secrets. */
  readonly args: readonly string[];
  /** Settings of the process: keys of gateway.yaml, or flags. Sorted by name. */
  readonly settings: readonly SettingEntry[];
  /** The `EndpointPickerConfig` in force; null in a dispatcher. */
  readonly picker: PickerConfigFeed | null;
  /** Sentences; the newest last, at most 32. */
  readonly warnings: readonly string[];
  /** The last reloads, the newest first, at most 8. */
  readonly reloads: readonly Reload[];
  readonly links: readonly { readonly text: string; readonly href: string }[];
}

export type SettingSource = "flag" | "file" | "environment" | "default";

export interface SettingEntry {
  readonly name: string;
  /** As JSON; a secret is the text `"REDACTED"`. */
  readonly value: string;
  readonly source: SettingSource;
  /** `--flag`, or `gateway.yaml:12:3`; null = none. */
  readonly place: string | null;
  /** When a change of the file takes effect; null = not from a file that is followed. */
  readonly change: "now" | "restart" | null;
}

export interface PickerConfigFeed {
  /** As `configHash` of a decision. */
  readonly hash: string;
  /** The file, or the name of the built-in configuration. */
  readonly origin: string;
  /**
   * The complete configuration as YAML, with a comment on the origin of each value (a line of the file, a default, or why Sluice
   * added it), as `sluice explain-config` prints it. The text is itself a configuration, so the page can edit and replay it.
   * Secrets are `REDACTED`. Null = it is too long.
   */
  readonly text: string | null;
  /** Since when it is in force. */
  readonly since: number;
  readonly plugins: readonly { readonly name: string; readonly type: string; readonly parameters: string }[];
  readonly profiles: readonly {
    readonly name: string;
    readonly filters: readonly string[];
    readonly scorers: readonly { readonly name: string; readonly weight: number }[];
    readonly picker: string;
  }[];
  readonly flowControl: boolean;
}

export type Reload = import("../../../picker/core/watch/reload-log.ts").FileReload;

/** The body of `POST /debug/feed/check`: the text of an `EndpointPickerConfig`, at most 64 KiB. */
export interface ConfigDraft {
  readonly text: string;
}

/** The answer of `POST /debug/feed/check`: what the process would read in the text. Nothing changes in the process. */
export interface ConfigCheck {
  /** What a replay needs of it; null when there are problems. */
  readonly picker: Pick<PickerConfigFeed, "plugins" | "profiles"> | null;
  /** In the order of the text, at most 50. */
  readonly problems: readonly TextNote[];
  readonly warnings: readonly TextNote[];
}

/** A note about a place in a text; lines and columns from 1 up. */
export interface TextNote {
  readonly line: number;
  readonly column: number;
  readonly text: string;
}
