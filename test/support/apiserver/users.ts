import type { User } from "./call.ts";

/** One RBAC rule, as in a Role or ClusterRole. */
export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups?: readonly string[];
  /** `pods`, `pods/status`, `*` */
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly nonResourceURLs?: readonly string[];
  /** Holds in this namespace only, as by a Role; undefined = everywhere, as by a ClusterRole. */
  readonly namespace?: string;
}

/** Somebody with a bearer token. */
export interface TestUser {
  readonly name: string;
  readonly groups?: readonly string[];
  readonly rules?: readonly PolicyRule[];
}

/** What somebody wants to do. */
export type Attempt =
  | {
      readonly verb: string;
      readonly group: string;
      /** With the subresource: `pods/status`. */
      readonly resource: string;
      readonly namespace: string | undefined;
      readonly name: string | undefined;
    }
  | { readonly verb: string; readonly url: string };

/** Paths that everybody with a token may read, as by the roles `system:discovery` and `system:public-info-viewer`. */
const PUBLIC = /^\/(api|apis|openapi|version|healthz|livez|readyz)(\/|$)/;

/** Who may do what. */
export class Users {
  readonly #byToken = new Map<string, TestUser>();

  set(token: string, user: TestUser): void {
    this.#byToken.set(token, user);
  }

  delete(token: string): void {
    this.#byToken.delete(token);
  }

  /** Who a token belongs to. */
  of(token: string): User | undefined {
    const user = this.#byToken.get(token);
    return user && { name: user.name, groups: [...(user.groups ?? []), "system:authenticated"] };
  }

  allows(user: User, attempt: Attempt): boolean {
    if (user.groups.includes("system:masters")) return true;
    if ("url" in attempt && attempt.verb === "get" && PUBLIC.test(attempt.url)) return true;
    for (const { name, rules } of this.#byToken.values()) {
      if (name === user.name && rules?.some((rule) => permits(rule, attempt))) return true;
    }
    return false;
  }
}

function permits(rule: PolicyRule, attempt: Attempt): boolean {
  const holds = (values: readonly string[] | undefined, value: string): boolean =>
    values?.some((each) => each === "*" || each === value) ?? false;
  if (!holds(rule.verbs, attempt.verb)) return false;
  if ("url" in attempt) {
    return (
      rule.nonResourceURLs?.some((url) =>
        url.endsWith("*") ? attempt.url.startsWith(url.slice(0, -1)) : url === attempt.url,
      ) ?? false
    );
  }
  if (rule.namespace !== undefined && rule.namespace !== attempt.namespace) return false;
  if (!holds(rule.apiGroups, attempt.group) || !holds(rule.resources, attempt.resource)) return false;
  if (rule.resourceNames === undefined || rule.resourceNames.length === 0) return true;
  return attempt.name !== undefined && rule.resourceNames.includes(attempt.name);
}
