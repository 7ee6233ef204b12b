import { messageOf } from "../../base/inference/errors.ts";
import type { RateLimitedLog } from "../../base/telemetry/rate-limited-log.ts";
import type { AccessReview } from "../../pool/kubernetes/access-review.ts";
import type { AccessVerdict, AdminRequest, Authorize } from "../../wires/admin/access.ts";

/** The two questions to the API server: the identity behind a token, and the rights of that identity. */
export type AccessReviews = Pick<AccessReview, "authenticate" | "authorize">;

/** The paths that load balancers and kubelets read without a token. */
const HEALTH: ReadonlySet<string> = new Set(["/healthz", "/ready"]);
const BEARER = /^bearer +([^\s]+) *$/i;

/**
 * Guards metrics, debug pages and the page by the cluster's RBAC. TokenReview checks the bearer token. SubjectAccessReview
 * checks the path as a nonResourceURL, with the HTTP method as the verb (epp-protocol 15.3). Loopback peers need a token, too.
 * While the API server does not answer, all requests are denied.
 * @param log gets the cause when the API server does not answer; the answer to the client leaves the cause out
 */
export function metricsAuthorization(reviews: AccessReviews, log: Pick<RateLimitedLog, "log">): Authorize {
  return (request) => (HEALTH.has(request.path) ? undefined : review(request, reviews, log));
}

async function review(
  { authorization, method, path }: AdminRequest,
  reviews: AccessReviews,
  log: Pick<RateLimitedLog, "log">,
): Promise<AccessVerdict> {
  const token = BEARER.exec(authorization ?? "")?.[1];
  if (token === undefined)
    return { status: 401, message: "Unauthorized: send a Kubernetes token as `authorization: Bearer TOKEN`" };
  const failed = (message: string, resource: string, error: unknown): AccessVerdict => {
    const hint = `the ClusterRole of this process needs the verb create on ${resource}, and the API server has to answer`;
    log.log("error", resource, { cause: messageOf(error) }, `the metrics port answers 500: ${hint}`);
    return { status: 500, message: `${message}: ${hint}` };
  };
  let user: Awaited<ReturnType<AccessReviews["authenticate"]>>;
  try {
    user = await reviews.authenticate(token);
  } catch (error) {
    return failed("Authentication failed", "tokenreviews.authentication.k8s.io", error);
  }
  if (user === undefined) return { status: 401, message: "Unauthorized: the API server does not accept this token" };
  const verb = method.toLowerCase();
  try {
    if (await reviews.authorize(user, verb, path)) return undefined;
  } catch (error) {
    const message = `Authorization for user ${user.username} failed`;
    return failed(message, "subjectaccessreviews.authorization.k8s.io", error);
  }
  const rule = `nonResourceURLs: [${JSON.stringify(path.slice(0, 200))}], verbs: [${verb}]`;
  const message = `Authorization denied for user ${user.username}: bind the user to a ClusterRole with the rule {${rule}}`;
  return { status: 403, message };
}
