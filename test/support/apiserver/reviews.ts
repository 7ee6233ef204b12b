import { type Answer, type Call, json } from "./call.ts";
import { isObject, type Json } from "./object.ts";
import { Refusal } from "./refusal.ts";
import type { Attempt, Users } from "./users.ts";

/** Answers a TokenReview or SubjectAccessReview from the users there are; undefined = the path is neither's. */
export function review(users: Users, { path, method, body }: Call): Answer | undefined {
  const kind = { "/apis/authentication.k8s.io/v1/tokenreviews": "TokenReview" }[path] ?? SAR[path];
  if (kind === undefined) return undefined;
  if (method !== "POST") throw new Refusal(405, "the server does not allow this method on the requested resource");
  const object = JSON.parse(body) as Json;
  const spec = isObject(object["spec"]) ? object["spec"] : {};
  const status = kind === "TokenReview" ? tokenStatus(users, spec) : accessStatus(users, spec);
  return json(201, { ...object, metadata: { creationTimestamp: null }, status });
}

const SAR: Readonly<Record<string, string>> = {
  "/apis/authorization.k8s.io/v1/subjectaccessreviews": "SubjectAccessReview",
};

function tokenStatus(users: Users, { token, audiences }: Json): Json {
  const user = users.of(String(token));
  if (user === undefined) return { user: {}, error: "[invalid bearer token, token lookup failed]" };
  const { name: username, groups } = user;
  return {
    authenticated: true,
    user: { username, uid: `uid-of-${username}`, groups },
    audiences: audiences ?? ["https://kubernetes.default.svc.cluster.local"],
  };
}

function accessStatus(users: Users, { user, groups, resourceAttributes, nonResourceAttributes }: Json): Json {
  const named = { name: String(user ?? ""), groups: Array.isArray(groups) ? groups.map(String) : [] };
  if (isObject(resourceAttributes) === isObject(nonResourceAttributes)) {
    throw new Refusal(
      422,
      'SubjectAccessReview.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: "null": exactly one ' +
        "of nonResourceAttributes or resourceAttributes must be specified",
    );
  }
  if (users.allows(named, attemptIn(resourceAttributes, nonResourceAttributes))) {
    const reason = `RBAC: allowed by ClusterRoleBinding "${named.name}" of ClusterRole "${named.name}" to User "${named.name}"`;
    return { allowed: true, reason };
  }
  return { allowed: false, reason: `no rule of RBAC allows it to User "${named.name}"` };
}

function attemptIn(resource: unknown, url: unknown): Attempt {
  if (isObject(url)) return { verb: String(url["verb"]), url: String(url["path"]) };
  const { verb, group, resource: plural, subresource, namespace, name } = resource as Readonly<Record<string, string>>;
  return {
    verb: verb ?? "",
    group: group ?? "",
    resource: subresource ? `${plural}/${subresource}` : (plural ?? ""),
    namespace: namespace || undefined,
    name: name || undefined,
  };
}
