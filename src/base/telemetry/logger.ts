/** The fields of a log line besides its message. Never prompt text. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The narrow view of a logger that rooms get. */
export interface Logger {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** A logger that adds `fields` to each of its lines. */
  child(fields: LogFields): Logger;
}

/** Writes nothing. */
export const silentLogger: Logger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLogger,
};
