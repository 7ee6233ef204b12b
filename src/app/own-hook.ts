import type { RequestHook } from "../plugin/kinds.ts";

/** A hook that a process has besides those of its configuration. */
export interface OwnHook {
  readonly name: string;
  readonly type: string;
  readonly plugin: RequestHook;
}
