import { messageOf, oneLine } from "../../../base/inference/errors.ts";

/**
 * Why a request failed, in one line that is never empty. The error of a host name with several addresses has no message of
 * its own, but one for each of them.
 */
export function failureText(error: Error & { code?: string; errors?: readonly unknown[] }): string {
  const causes = Array.isArray(error.errors) ? oneLine(error.errors.map(messageOf).join("; ")) : "";
  return causes || messageOf(error) || (error.code ?? error.name);
}
