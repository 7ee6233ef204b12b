import { z } from "zod";

const TIME = /^(\d{4}-\d\d-\d\d)T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/;

/** A point in time as Kubernetes writes it (RFC 3339) in wall-clock milliseconds; undefined for any other text. */
export function parseTime(value: string): number | undefined {
  const day = TIME.exec(value)?.[1];
  if (day === undefined) return undefined;
  const midnight = Date.parse(`${day}T00:00:00Z`);
  // The platform takes February 30 for March 1.
  if (Number.isNaN(midnight) || new Date(midnight).toISOString().slice(0, 10) !== day) return undefined;
  return Date.parse(value);
}

/** `2026-01-31T12:00:00Z`: Kubernetes keeps whole seconds. @param ms wall-clock milliseconds */
export function formatTime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

/** Schema of a point in time: a text in, wall-clock milliseconds out. */
export function time() {
  return z.string().transform((value, context) => {
    const ms = parseTime(value);
    if (ms !== undefined) return ms;
    const got = JSON.stringify(value.slice(0, 80));
    context.addIssue({ code: "custom", message: `expected a time such as 2026-01-31T12:00:00Z, got ${got}` });
    return z.NEVER;
  });
}
