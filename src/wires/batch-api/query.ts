import type { ListPart } from "../../async/batch-api/file-table.ts";
import { invalidParameter } from "./api-error.ts";

/**
 * The part of a list that a query asks for.
 * @param query name and value of each parameter
 * @param limits the most entries, and how many without `limit`
 * @param more names of further parameters
 * @throws ApiError
 */
export function listPart(
  query: Readonly<Record<string, string>>,
  limits: { readonly most: number; readonly usual: number },
  more: readonly string[] = [],
): ListPart {
  const known = ["after", "limit", "order", ...more];
  const unknown = Object.keys(query).find((name) => !known.includes(name));
  if (unknown !== undefined)
    throw invalidParameter(unknown.slice(0, 100), `unknown parameter; known are ${known.join(", ")}`);
  const { after, limit = String(limits.usual), order = "desc" } = query;
  if (!/^\d{1,6}$/.test(limit) || Number(limit) < 1 || Number(limit) > limits.most)
    throw invalidParameter("limit", `limit must be a whole number from 1 to ${limits.most}`);
  if (order !== "asc" && order !== "desc") throw invalidParameter("order", 'order must be "asc" or "desc"');
  return { after: after || undefined, limit: Number(limit), order };
}
