/** A plugin in force. `state` exists when the plugin can report its state, and may throw. */
export interface PluginState {
  readonly name: string;
  readonly type: string;
  readonly state?: () => unknown;
}

/** Returns the plugin with its state where it can report it (scheduling 9.2). */
export function stateOf({
  name,
  type,
  instance,
}: {
  readonly name: string;
  readonly type: string;
  readonly instance: unknown;
}): PluginState {
  const { debugState } = instance as { debugState?: () => unknown };
  return { name, type, ...(debugState === undefined ? {} : { state: () => debugState.call(instance) }) };
}
