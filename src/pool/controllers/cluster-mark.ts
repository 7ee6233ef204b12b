import { createHash } from "node:crypto";

/**
 * A short mark of a cluster, made from the authority of its API server: pools of two clusters may have the same name and the same
 * addresses. "" = the authority is unknown.
 * @param ca PEM
 */
export function clusterMark(ca: string | undefined): string {
  return ca === undefined ? "" : createHash("sha256").update(ca.trim()).digest("hex").slice(0, 16);
}
