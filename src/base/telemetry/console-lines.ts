/**
 * Turns a JSON log line into one for people: time, level, name and message with tabs between them, the other fields as
 * JSON behind, the stack of an error below. What is no JSON object stays as it is.
 * @param line with its newline
 */
export function consoleLine(line: string): string {
  let fields: Record<string, unknown>;
  try {
    fields = JSON.parse(line) as Record<string, unknown>;
  } catch {
    return line;
  }
  const { time, level, name, msg, pid: _, err, ...rest } = fields;
  const parts = [time, String(level).toUpperCase(), name, msg].filter((part) => part !== undefined);
  if (Object.keys(rest).length > 0) parts.push(JSON.stringify(rest));
  const stack = (err as { stack?: unknown } | undefined)?.stack;
  return `${parts.join("\t")}\n${stack === undefined ? "" : `${String(stack)}\n`}`;
}
