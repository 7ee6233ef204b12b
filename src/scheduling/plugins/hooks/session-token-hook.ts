import { z } from "zod";
import { defineRequestHook } from "../../../plugin/define.ts";
import { headerName } from "../session-affinity-parameters.ts";
import { encodeSessionToken } from "../session-token.ts";

/** Not a published type: the response side of session affinity (scheduling 3.9.2). */
export const sessionTokenHook = defineRequestHook({
  type: "session-token-hook",
  describe:
    "Writes the token of the endpoint that serves into a header of the response; comes along with session affinity.",
  parameters: z.strictObject({ header: headerName.prefault("x-session-token").describe("The header.") }),
  create: ({ header }) => ({
    responseReceived({ endpoint, setHeader }) {
      if (endpoint !== undefined) setHeader(header, encodeSessionToken(endpoint.id));
    },
  }),
});
