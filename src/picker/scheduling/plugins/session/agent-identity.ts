import { z } from "zod";
import type { HeaderList } from "../../../../base/inference/headers.ts";
import { defineRequestHeaderProcessor } from "../../../../base/plugin/define.ts";
import type { RequestHeaderContext, RequestHeaderProcessor } from "../../../../base/plugin/kinds.ts";
import { headerName, sessionIdIn } from "./session-affinity-parameters.ts";

/** The headers in which coding agents send their session: Claude Code, OpenCode, Codex and an older Codex. */
const AGENT_HEADERS = ["x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"];

/** scheduling 3.10.5. Session affinity may also use it as the source of the session. */
export const agentIdentity = defineRequestHeaderProcessor({
  type: "agent-identity",
  describe:
    "Gives each session of a coding agent its own fairness flow, unless the client names its flow. The session is in `x-claude-code-session-id`, `x-session-affinity`, `session-id` or `session_id`. Ids over 256 characters are ignored.",
  parameters: z.strictObject({
    additionalSessionHeaders: z
      .array(headerName)
      .max(16)
      .default([])
      .describe("Further headers that may have the session. Sluice reads them after those four."),
  }),
  create: ({ additionalSessionHeaders }) => new AgentIdentity(additionalSessionHeaders),
});

/** See `agentIdentity`. */
export class AgentIdentity implements RequestHeaderProcessor {
  readonly #headers: readonly string[];

  /** @param additional headers in lower case */
  constructor(additional: readonly string[]) {
    this.#headers = [...AGENT_HEADERS, ...additional];
  }

  process({ request, setFairnessId }: RequestHeaderContext): undefined {
    const session = this.sessionOf(request.headers);
    if (session !== undefined) setFairnessId(session);
  }

  /** Returns the agent's session, if the headers name one. */
  sessionOf(headers: HeaderList): string | undefined {
    return sessionIdIn(headers, this.#headers);
  }
}
