import { defineAdmitter, z } from "sluice/plugin";

/** Keeps answers short on a pool that is for short ones. */
export default defineAdmitter({
  type: "answer-length-admitter",
  describe: "Refuses requests for longer answers than the pool is for.",
  parameters: z.object({ maxTokens: z.int().min(1).default(4096).describe("Longest answer that may be asked for.") }),
  create: ({ maxTokens }) => ({
    admit: ({ request }) => (request.maxTokens > maxTokens ? `ask for at most ${maxTokens} tokens here` : undefined),
  }),
});
