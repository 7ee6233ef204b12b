import { z } from "zod";
import { defineProducer } from "../../../../base/plugin/define.ts";
import { SESSION_ID } from "../../../../base/plugin/keys.ts";
import { headerName } from "../session-affinity-parameters.ts";
import { cookieOf } from "../session-cookie.ts";
import { MAX_SESSION_ID, sessionIdIn } from "../session-id.ts";

const parameters = z
  .strictObject({
    headerName: headerName.optional().describe("The header that holds the session."),
    cookieName: z
      .string()
      .trim()
      .min(1, { error: "must not be empty" })
      .optional()
      .describe("The cookie that holds the session."),
  })
  .refine(({ headerName, cookieName }) => (headerName === undefined) !== (cookieName === undefined), {
    message: "takes exactly one of headerName and cookieName",
  });

/** scheduling 3.10.5 */
export const sessionIdProducer = defineProducer({
  type: "session-id-producer",
  describe:
    "Reads which session a request belongs to out of a header or a cookie. Ids over 256 characters are ignored.",
  parameters,
  produces: [SESSION_ID],
  create: ({ headerName, cookieName }) => {
    const headers = headerName === undefined ? [] : [headerName];
    return {
      produce({ request, setAttribute }) {
        const session =
          cookieName === undefined ? sessionIdIn(request.headers, headers) : cookieOf(request.headers, cookieName);
        if (session !== undefined && session.length <= MAX_SESSION_ID) setAttribute(SESSION_ID, session);
      },
    };
  },
});
